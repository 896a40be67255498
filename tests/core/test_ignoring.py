from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.core.ignoring import Filter, junk_file, junk_folder, output_beside
from inboxd.core.naming import NAME_MAX, candidates, temporary

FORMATS = ("md", "json", "txt")


@pytest.mark.parametrize(
    ("name", "glob"),
    [
        ("x.crdownload", "*.crdownload"),
        ("x.pdf.part", "*.part"),
        ("x.PARTIAL", "*.partial"),
        ("x.download", "*.download"),
        ("scan.pdf.filepart", "*.filepart"),
        ("x.tmp", "*.tmp"),
        ("x.temp", "*.temp"),
        (".scan.pdf.aX3bC9", ".*.??????"),
        ("~$x.docx", "~$*"),
        ("~WRL0001.tmp", "~WRL*.tmp"),
        ("~WRD0001.tmp", "~WRD*.tmp"),
        (".~lock.x.pdf#", ".~lock.*#"),
        ("x.pdf~", "*~"),
        ("x.pd~", "*~"),
        (".x.pdf.swp", ".*.sw?"),
        (".goutputstream-A1B2C3", ".goutputstream-*"),
        ("._x.pdf", "._*"),
        (".DS_Store", ".DS_Store"),
        (".smbdeleteAAA1", ".smbdelete*"),
        (".nfs0001", ".nfs[0-9a-f]*"),
        (".fuse_hidden01", ".fuse_hidden*"),
        (".__smbfile_tmp1", ".__smbfile_tmp*"),
        (".__smbfile_silly1", ".__smbfile_silly*"),
        (".syncthing.x.pdf.tmp", ".syncthing.*.tmp"),
        ("~syncthing~x.pdf.tmp", "~syncthing~*.tmp"),
        ("x.pdf@SynoEAStream", "*@SynoEAStream"),
        ("x.pdf@SynoResource", "*@SynoResource"),
        ("Thumbs.db", "Thumbs.db"),
        ("THUMBS.DB", "Thumbs.db"),
        ("ehthumbs.db", "ehthumbs.db"),
        ("desktop.ini", "desktop.ini"),
        ("x.pdf:Zone.Identifier", "*:Zone.Identifier"),
        (".hidden.pdf", ".*"),
        (".pdf", ".*"),
        ("..pdf", ".*"),
        (".inboxd-inbox", ".inboxd-*"),
    ],
)
def test_files_that_are_no_input(name: str, glob: str) -> None:
    rule = junk_file(name.encode())
    assert rule is not None and rule.glob == glob and rule.why


@pytest.mark.parametrize(
    ("name", "glob"),
    [
        (".~tmp~", ".~tmp~"),
        (".rsync-partial", ".rsync-partial"),
        (".AppleDouble", ".AppleDouble"),
        (".TemporaryItems", ".TemporaryItems"),
        (".Trashes", ".Trashes"),
        (".Spotlight-V100", ".Spotlight-V100"),
        (".fseventsd", ".fseventsd"),
        (".sb-1a2b-x", ".sb-*"),
        (".stfolder", ".stfolder"),
        (".stversions", ".stversions"),
        (".dropbox.cache", ".dropbox.cache"),
        (".Trash-1000", ".Trash-*"),
        ("@eaDir", "@eaDir"),
        ("#recycle", "#recycle"),
        ("@Recycle", "@Recycle"),
        (".@__thumb", ".@__thumb"),
        ("#snapshot", "#snapshot"),
        (".snapshot", ".snapshot"),
        (".zfs", ".zfs"),
        ("$RECYCLE.BIN", "$RECYCLE.BIN"),
        ("$Recycle.Bin", "$RECYCLE.BIN"),
        ("System Volume Information", "System Volume Information"),
        ("__MACOSX", "__MACOSX"),
        ("lost+found", "lost+found"),
        (".git", ".*"),
        (".inboxd-x", ".inboxd-*"),
    ],
)
def test_folders_that_are_not_looked_into(name: str, glob: str) -> None:
    rule = junk_folder(name.encode())
    assert rule is not None and rule.glob == glob and rule.why


@pytest.mark.parametrize(
    "name",
    [
        b"scan.pdf",
        b"caf\xe9.pdf",
        b"a\nb.pdf",
        b"-rf.pdf",
        b" .pdf",
        b"[x]?.pdf",
        b"*.pdf",
        b"IMG 100%.PDF",
        b"scan.sync-conflict-20260101-101010-ABCDEFG.pdf",
        b"part.pdf",
        b"x.pdf ",
        b"x.pdf.",
        b"CON.pdf",
        b"a:b.pdf",
        b"without extension",
        b"x.tmp.pdf",
        b"a" * 255,
    ],
)
def test_ordinary_names_however_odd(name: bytes) -> None:
    assert junk_file(name) is None
    assert Filter().file(b"some/folder", name) is None


def test_our_temporary_files_are_ours() -> None:
    rule = junk_file(temporary("0123456789abcdef"))
    assert rule is not None and rule.glob == ".inboxd-*"


def test_include_is_tried_on_the_name_without_regard_to_case() -> None:
    chosen = Filter(include=("*.pdf", "*.TIF"))
    assert chosen.file(b"", b"A.PDF") is None
    assert chosen.file(b"x", b"a.tif") is None
    rule = chosen.file(b"", b"a.jpg")
    assert rule is not None and rule.glob == "*.pdf *.TIF" and "include" in rule.why
    hidden = chosen.file(b"", b".a.jpg")
    assert hidden is not None and hidden.why == "hidden"


def test_exclude_without_a_slash_is_tried_on_every_name_on_the_way_down() -> None:
    chosen = Filter(exclude=("drafts", "*.bak.pdf"))
    assert chosen.folder(b"", b"Drafts") is not None
    assert chosen.folder(b"a/b", b"drafts") is not None
    assert chosen.folder(b"", b"drafts2") is None
    rule = chosen.file(b"a", b"x.bak.PDF")
    assert rule is not None and rule.glob == "*.bak.pdf" and "exclude" in rule.why


def test_exclude_with_a_slash_is_tried_on_the_path() -> None:
    chosen = Filter(exclude=("old/*", "a/b"))
    assert chosen.file(b"old/deep", b"x.pdf") is not None
    assert chosen.file(b"older", b"x.pdf") is None
    assert chosen.folder(b"a", b"b") is not None
    assert chosen.folder(b"c/a", b"b") is None


def test_a_file_is_left_out_by_its_name_or_by_a_folder_on_the_way() -> None:
    chosen = Filter(exclude=("drafts", "old/*"))
    assert chosen.path(b"a.pdf") is None
    assert chosen.path(b"a/b/c.pdf") is None
    for path, glob in {b"a/drafts/b/c.pdf": "drafts", b"old/a.pdf": "old/*", b"a/.b.pdf": ".*"}.items():
        rule = chosen.path(path)
        assert rule is not None and rule.glob == glob


def test_globs_match_names_that_are_not_utf8() -> None:
    assert Filter(exclude=("caf?.pdf",)).file(b"", b"caf\xe9.pdf") is not None
    assert Filter(include=("*.pdf",)).file(b"", b"a\n\xff.pdf") is None


@pytest.mark.parametrize(
    "name", [b"scan.pdf.md", b"scan.pdf.json", b"scan.pdf.txt", b"scan.pdf.2.md", b"scan.pdf.17.json"]
)
def test_an_output_beside_its_original(name: bytes) -> None:
    assert output_beside(name, {b"scan.pdf", name}, FORMATS) is not None
    assert output_beside(name, {b"other.pdf", name}, FORMATS) is None


@pytest.mark.parametrize("name", [b"scan.pdf", b"notes.md", b"scan.pdf.html", b"scan.pdf.x.md", b"md", b".md"])
def test_no_output(name: bytes) -> None:
    assert output_beside(name, {b"scan.pdf", b"notes", name}, ("md",)) is None or name == b"notes.md"


def test_a_name_is_only_an_output_where_its_format_is_written() -> None:
    assert output_beside(b"scan.pdf.txt", {b"scan.pdf"}, ("md", "json")) is None


@given(
    st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="/\0"), min_size=1, max_size=90),
    st.sampled_from(FORMATS),
    st.integers(0, 5),
    st.sampled_from([255, 143]),
)
def test_every_name_that_we_give_is_known_again(text: str, format: str, number: int, limit: int) -> None:
    original = text.encode()[:NAME_MAX]
    names = candidates(original, format, limit)
    name = [next(names) for _ in range(number + 1)][number]
    assert output_beside(name, {original, b"another.pdf"}, FORMATS) is not None
