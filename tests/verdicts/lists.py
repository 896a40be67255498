"""Texts that repeat themselves and are right: what loop detectors are known to take for loops. By what they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def _rows(lines: Iterable[str], times: int = 1) -> str:
    return "\n".join(list(lines) * times)


def _table(rows: Iterable[Sequence[object]]) -> str:
    return "<table>" + "\n".join("<tr>" + "".join(f"<td>{c}</td>" for c in row) + "</tr>" for row in rows) + "</table>"


def _pipes(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join((f"| {' | '.join(head)} |", "|---" * len(head) + "|", *lines))


_CHAPTERS = ("The harbour", "Tides", "A bad winter", "Letters", "The survey", "Return", "Nets", "What was left")
_STOPS = ("Markt", "Bahnhof", "Lindenallee", "Hallenbad", "Friedhof", "Am Wehr", "Schule", "Depot", "Endstelle")
_BOTTLES = (
    "{n} bottles of beer on the wall, {n} bottles of beer. Take one down and pass it around, {m} bottles of beer on "
    "the wall."
)

LISTS = {
    "en contents with leaders": _rows(f"{n}. {_CHAPTERS[n % 8]} {'.' * 70} {n * 7 + 3}" for n in range(1, 44)),
    "de contents with leaders": _rows(f"Kapitel {n} {'. ' * 45} {n * 11}" for n in range(1, 36)),
    "zh contents with leaders": _rows(f"第{n}章　总则与附则{'…' * 30}{n * 6}" for n in range(1, 40)),
    "ja contents with leaders": _rows(f"第{n}節　はじめに{'・' * 40}{n * 4}" for n in range(1, 34)),
    "en figures with leaders": _rows(f"Figure {n}: Cross section of the dam {'.' * 50} {n + 20}" for n in range(1, 40)),
    "en form lines": _rows((f"Name {'.' * 90}", f"Street {'.' * 88}", f"Town {'.' * 90}"), 12),
    "fr form lines": _rows((f"Nom : {'_' * 60}", f"Prénom : {'_' * 57}", "☐ oui   ☐ non"), 12),
    "en form not applicable": _rows(f"{n}. Other income from abroad: not applicable" for n in range(1, 45)),
    "de Anlage entfällt": _rows(f"Zeile {n}: entfällt" for n in range(1, 60)),
    "en ruled sheet": _rows(["_" * 80], 40),
    "html empty table": _table([[""] * 8] * 40),
    "html empty table with head": _table([["Date", "Opened by", "Closed by", "Remarks"], *[[""] * 4] * 45]),
    "markdown empty table": _pipes(("Day", "In", "Out"), [(" ", " ", " ")] * 31),
    "de timetable": _table([[stop, *[f"{h}:{m:02}" for h in range(5, 17)]] for m, stop in enumerate(_STOPS, 4)]),
    "en timetable with gaps": _table(
        [[f"Platform {n % 4 + 1}", *["" if (n + h) % 3 else f"{h}.{n:02}" for h in range(6, 20)]] for n in range(30)]
    ),
    "en calendar": _table([range(week * 7 + 1, week * 7 + 8) for week in range(5)] * 6),
    "en multiplication": _table([[a * b for b in range(1, 21)] for a in range(1, 21)]),
    "en truth table": _pipes("ABCDEF", [[(n >> b) & 1 for b in range(5)] + [n.bit_count() % 2] for n in range(32)]),
    "en equal price rows": _pipes(("Item", "Qty", "Price"), [("Washer M8 zinc", 1, "0.12")] * 40),
    "de equal invoice rows": _table([("Kleinteile", "1 Stk", "2,50 €")] * 45),
    "fr equal receipt rows": _rows(["CAFE EXPRESS           1,80"] * 38 + ["TOTAL                 68,40"]),
    "ja equal receipt rows": _rows(["おにぎり　　　　　　　　１２０円"] * 36 + ["合計　　　　　　　　４，３２０円"]),
    "zh equal ledger rows": _table([("五月", "房租", "3200.00", "已付")] * 36),
    "ar attendance": _table([(f"طالب رقم {n}", "حاضر", "حاضر", "حاضر", "حاضر") for n in range(1, 32)]),
    "he attendance": _table([(f"תלמיד {n}", "נוכח", "נוכח", "נוכח") for n in range(1, 36)]),
    "en labels": _rows(["The Secretary", "Allotment Society", "3 Mill Lane", "Northbridge NB4 7QT", ""], 21),
    "nl labels": _rows(["Bibliotheek De Brug", "Postbus 118", "9700 AC Groningen", ""], 24),
    "en raffle tickets": _rows(f"SUMMER FAIR RAFFLE   No. {n:04}   ONE POUND" for n in range(1201, 1251)),
    "en checklist": _rows(f"{n}. Fire door closes by itself [ ] yes [ ] no" for n in range(1, 46)),
    "en survey": _table([(f"Question {n}", *"12345") for n in range(1, 41)]),
    "en statement": _table(
        [(f"{d:02} MAR", "CARD PAYMENT CORNER STORES LTD", "2.10", f"{840 - d * 2.1:.2f}") for d in range(1, 32)]
    ),
    "en log": _rows(f"2025-03-04 10:{n:02}:17 INFO heartbeat ok, queue 0" for n in range(59)),
    "en hexdump": _rows(
        f"{n * 16:08x}  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|" for n in range(48)
    ),
    "en code of many cases": _rows(f"    case {n}: return handle({n});" for n in range(60)),
    "en code that resets": _rows([*(f"reg[{n}] = 0;" for n in range(64)), "}"]),
    "en guitar tab": _rows(
        ["e|-----0-----0-----0-----0--|", "B|---1-----1-----1-----1----|", "G|-0-----0-----0-----0------|", ""], 10
    ),
    "en dna": _rows(
        f"{n * 60 + 1:>6} " + " ".join(("acgtacgtac", "gatgatgatg")[(n + k) % 2] for k in range(6)) for n in range(40)
    ),
    "en pupil's lines": _rows(["I must not talk in class."] * 50),
    "de Strafarbeit": _rows(["Ich soll im Unterricht nicht schwätzen."] * 45),
    "zh practice sheet": _rows(["永 永 永 永 永 永 永 永", "和 和 和 和 和 和 和 和"], 12),
    "ja practice sheet": _rows(["あ あ あ あ あ あ あ あ", "い い い い い い い い", "う う う う う う う う"], 8),
    "la litany": _rows(
        f"Sancte {name}, ora pro nobis." for name in ("Petre", "Paule", "Andrea", "Ioannes", "Thoma") * 9
    ),
    "he psalm": _rows(
        f"{line} כי לעולם חסדו" for line in ("הודו ליהוה כי טוב", "לעשה השמים בתבונה", "לרקע הארץ על המים") * 9
    ),
    "en lyrics la la": _rows(["La la la la, la la la la", "La la la la, la la", "Oh won't you sing it with me"], 14),
    "en row your boat": _rows(
        [
            "Row, row, row your boat,",
            "Gently down the stream.",
            "Merrily, merrily, merrily, merrily,",
            "Life is but a dream.",
            "",
        ],
        8,
    ),
    "es estribillo": _rows(["Ay, ay, ay, ay, canta y no llores,", "porque cantando se alegran los corazones.", ""], 14),
    "en bottles": _rows(_BOTTLES.format(n=n, m=n - 1) for n in range(45, 0, -1)),
    "en a hundred bottles in small print": _rows(_BOTTLES.format(n=n, m=n - 1) for n in range(100, 0, -1)),
    "en tiny equal rows": _table([("Washer M8 zinc plated steel", "WSH-M8-ZN", "1", "0.12", "0.12")] * 110),
    "en index": _rows(f"harbour, repairs to, {n}, {n + 2}, {n + 40}; see also harbour" for n in range(3, 60)),
    "en crossword": _table([["" if (r * c) % 3 else (r * 15 + c) % 37 + 1 for c in range(15)] for r in range(15)]),
    "en log tables": _table(
        [[f"{n}", *[f"{(n * 41 + k * 433) % 10000:04}" for k in range(10)]] for n in range(10, 60)]
    ),
    "en matrix": "$$ \\begin{pmatrix} "
    + " \\\\ ".join(" & ".join("1" if i == j else "0" for j in range(12)) for i in range(12))
    + " \\end{pmatrix} $$",
}
"""Name → text as the engine writes it. A name begins with the language, or the mark-up."""
