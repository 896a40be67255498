"""Whether the renderer draws Chinese, Japanese and Korean in PDFs that name a font without carrying it.

Such text would vanish from the page without any error. What decides is not the machine's fonts but how MuPDF was
built, so this draws two characters of each script and looks at the pixels. It imports PyMuPDF, which belongs in
processes of its own: `missing` starts one.
"""

from __future__ import annotations

import subprocess
import sys

_SAMPLES = {  # script: font that a PDF would name, its encoding, its character collection, two characters
    "Simplified Chinese": ("STSong-Light", "UniGB-UTF16-H", "GB1", "中文"),
    "Traditional Chinese": ("MSung-Light", "UniCNS-UTF16-H", "CNS1", "繁體"),
    "Japanese": ("HeiseiMin-W3", "UniJIS-UTF16-H", "Japan1", "あ語"),
    "Korean": ("HYSMyeongJo-Medium", "UniKS-UTF16-H", "Korea1", "한국"),
}


def missing(timeout: float = 30.0) -> list[str]:
    """The scripts that would vanish, by name; takes about half a second, in a process of its own.

    Raises:
        OSError, subprocess.SubprocessError: the renderer does not even start.
    """
    # -P: the folder that we happen to be in, an inbox perhaps, must not lend its modules.
    program = [sys.executable, "-P", "-m", "inboxd.fonts"]
    return subprocess.run(program, capture_output=True, text=True, timeout=timeout, check=True).stdout.splitlines()


def _undrawn() -> list[str]:
    import pymupdf

    def drawn(font: str, encoding: str, collection: str, character: str) -> bytes:
        page = _page(font, encoding, collection, character)
        with pymupdf.open(stream=page, filetype="pdf") as document:  # type: ignore[no-untyped-call]  # has no types
            return bytes(document[0].get_pixmap(colorspace=pymupdf.csGRAY).samples)

    def vanishes(font: str, encoding: str, collection: str, pair: str) -> bool:
        # Two characters that look alike are two empty boxes.
        one, other = (drawn(font, encoding, collection, character) for character in pair)
        return min(one) > 128 or one == other

    return [script for script, sample in _SAMPLES.items() if vanishes(*sample)]


def _page(font: str, encoding: str, collection: str, character: str) -> bytes:
    """A PDF of one small page that shows `character` in a font that it does not carry."""
    content = f"BT /F 40 Tf 5 10 Td <{character.encode('utf-16-be').hex()}> Tj ET"
    objects = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 50 50]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        f"<</Length {len(content)}>>stream\n{content}\nendstream",
        f"<</Type/Font/Subtype/Type0/BaseFont/{font}/Encoding/{encoding}/DescendantFonts[6 0 R]>>",
        f"<</Type/Font/Subtype/CIDFontType0/BaseFont/{font}/FontDescriptor 7 0 R"
        f"/CIDSystemInfo<</Registry(Adobe)/Ordering({collection})/Supplement 2>>>>",
        f"<</Type/FontDescriptor/FontName/{font}/Flags 4/FontBBox[0 -200 1000 900]"
        "/ItalicAngle 0/Ascent 800/Descent -200/CapHeight 700/StemV 80>>",
    )
    body, offsets = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += f"{number} 0 obj{content}endobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    end = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer<</Size {len(objects) + 1}/Root 1 0 R>>\n"
    return f"{body}{end}startxref\n{len(body)}\n%%EOF\n".encode()


if __name__ == "__main__":
    for script in _undrawn():
        print(script)
