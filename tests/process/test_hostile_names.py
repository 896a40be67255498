"""Names that are made to do harm, through a whole life of the daemon: nothing acts on them, and each file is read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import socket
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest
from tests.process.daemon import INBOXD, Daemon, output, received
from tests.process.test_survival import pdf

from inboxd.cli import main

NAMES = [
    b"two\nlines.pdf",
    b"forged\n2026-11-30T12:00:00Z level=error event=forged.pdf",
    b"forged\r\x1b[1A\x1b[2Klevel=error.pdf",
    b"\x1b[31mred\x1b]0;title\x07\x1b[5n.pdf",
    b"\xc2\x9b31mC1.pdf",
    b"<script>alert(1)<img src=x onerror=alert(1)>.pdf",
    b"[click](javascript:alert(1)) ![i](x) # h | a `b` *c* _d_.pdf",
    b"'; DROP TABLE files; --.pdf",
    b'" OR ""=".pdf',
    b"%s%n%d{0}{x}%(event)s.pdf",
    b"--help.pdf",
    b"-rf.pdf",
    b"$(touch pwned)`touch pwned`;touch pwned;&&|.pdf",
    "\u202efdp.exe\u2066\u2069\u061c\u200f.pdf".encode(),
    "zero\u200bwidth\ufeff\U000e0041.pdf".encode(),
    b"[red]rich[blink][link=x].pdf",
    b"\\n\\x1b[31m\\u{a}.pdf",
    b"stray\xff\xfe\xc3.pdf",
    b'tab\tquote"comma,semicolon;equals=.pdf',
    b" leading and trailing .pdf",
    b"=cmd|' C'!A0.pdf",
    "line\u2028paragraph\u2029.pdf".encode(),
]
FOLDER = b"sub\n\x1b[31m<b>'%s"
FORGED = re.compile(r"^ *(lines\.pdf|2026-11-30T12:00:00Z)", re.MULTILINE)
ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Life:
    daemon: Daemon
    names: dict[int, bytes]  # those of the ledger, by the id of the file
    log: str
    json_log: str
    notified: list[str]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    """Two lives over files of all these names, half of them broken; the second logs in JSON."""
    root = tmp_path_factory.mktemp("hostile")
    daemon = Daemon(root)
    inbox = os.fsencode(daemon.inbox)
    (daemon.inbox / os.fsdecode(FOLDER)).mkdir()
    for number, name in enumerate(NAMES):
        pdf(inbox + b"/" + name, f"page {number}")
        broken(inbox + b"/" + FOLDER + b"/" + name, number)
        (daemon.inbox / os.fsdecode(b"ignored" + name + b".part")).write_bytes(b"x")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as door:
        door.bind(str(root / "notify"))
        door.setblocking(False)
        assert daemon.drain(env={"NOTIFY_SOCKET": str(root / "notify")}) == 0, daemon.log()
        notified = received(door)
    for number, name in enumerate(NAMES, 1000):  # no two alike: a copy of a bad file may get no line of its own
        (daemon.inbox / os.fsdecode(name)).rename(daemon.inbox / os.fsdecode(b"again " + name))
        broken(inbox + b"/more " + name, number)
    assert daemon.start("--until-drained", "--log-json").wait(120) == 0, daemon.log()
    rows = daemon.sql("SELECT id, name FROM files")
    return Life(
        daemon,
        {number: bytes(name) for number, name in rows},
        (root / "life-1.log").read_text(),
        (root / "life-2.log").read_text(),
        notified,
    )


def broken(path: bytes, number: int) -> None:
    with open(path, "wb") as file:  # noqa: PTH123 - bytes path
        file.write(b"%%PDF-1.7\nnothing of a document %d\nstartxref\n0\n%%%%EOF\n" % number)


def inboxd(life: Life, verb: str, *arguments: str | bytes) -> str:
    """What the command prints, on both streams."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        code = main([verb, "--config", str(life.daemon.config), *map(os.fsdecode, arguments)])
    assert code in (0, 1), told.getvalue()
    return told.getvalue()


def is_harmless(text: str) -> bool:
    """Whether no terminal acts on it, and none of the names begins a line of its own."""
    return not ACTING.search(text) and not FORGED.search(text)


def test_every_file_came_to_its_end(life: Life) -> None:
    assert dict(life.daemon.sql("SELECT state, count(*) FROM v_files GROUP BY state")) == {
        "done": len(NAMES),
        "duplicate": len(NAMES),  # renamed while no daemon ran
        "quarantined": 2 * len(NAMES),
    }
    assert set(life.names.values()) == {b"again " + name for name in NAMES} | {b"more " + name for name in NAMES} | set(
        NAMES
    )


def test_no_command_was_run_and_no_file_of_another_name_made(life: Life) -> None:
    expected = {prefix + name for name in NAMES for prefix in (b"again ", b"more ")}
    expected |= {b"ignored" + name + b".part" for name in NAMES} | {FOLDER, b".inboxd-inbox"}
    expected |= {prefix + name + end for name in NAMES for prefix in (b"", b"again ") for end in (b".md", b".json")}
    assert set(os.listdir(os.fsencode(life.daemon.inbox))) == expected
    assert not list(life.daemon.root.rglob("pwned"))


@pytest.mark.parametrize(
    "command",
    [
        ("files",),
        ("files", "--limit", "500"),
        ("files", "--limit", "500", "--json"),
        ("files", "--state", "quarantined"),
        ("status", "--once"),
        ("status", "--json"),
        ("ignored",),
        ("search", "page"),
        ("search", "page", "--limit", "100", "--json"),
        ("sql", "SELECT * FROM v_files"),
        ("sql", "SELECT * FROM v_files", "--json"),
        ("sql", "SELECT cast(name AS TEXT) AS raw, * FROM files WHERE NOT instr(name, x'ff')"),
        ("sql", "SELECT cast(name AS TEXT) AS raw, * FROM files WHERE NOT instr(name, x'ff')", "--csv"),
        ("sql", "SELECT * FROM events"),
        ("check",),
    ],
    ids=" ".join,
)
def test_no_command_says_what_acts(life: Life, command: tuple[str, ...]) -> None:
    said = inboxd(life, *command)
    assert said.count("\n") > 3
    # A field of CSV may have lines: its quotes say so.
    assert not ACTING.search(said) if "--csv" in command else is_harmless(said), ACTING.findall(said)
    if "--json" in command:
        json.loads(said)


def test_show_says_nothing_that_acts(life: Life) -> None:
    for number in list(life.names)[:: max(1, len(life.names) // 30)]:
        for form in ((), ("--json",)):
            assert is_harmless(inboxd(life, "show", str(number), *form))


def test_csv_has_a_record_a_row_whatever_is_in_it(life: Life) -> None:
    said = inboxd(
        life, "sql", "SELECT id, cast(name AS TEXT) AS raw, path FROM files WHERE NOT instr(name, x'ff')", "--csv"
    )
    records = list(csv.reader(io.StringIO(said)))
    assert {len(record) for record in records} == {3}
    assert len(records) == 4 * (len(NAMES) - 1) + 1  # less the name that SQLite can't call text


def test_a_file_can_be_named_on_the_command_line(life: Life) -> None:
    for name in NAMES:
        said = inboxd(life, "show", "--", os.fsencode(life.daemon.inbox) + b"/again " + name)
        assert "duplicate" in said, said
        assert is_harmless(said)


def test_the_log_has_one_line_an_event(life: Life) -> None:
    assert is_harmless(life.log)
    lines = life.log.splitlines()
    assert all(re.match(r"time=\S+Z level=(info|warning) event=", line) for line in lines)
    assert sum("quarantined" in line for line in lines) == len(NAMES)


def test_the_json_log_has_one_object_an_event(life: Life) -> None:
    assert is_harmless(life.json_log)
    events = [json.loads(line) for line in life.json_log.splitlines()]
    assert {event["level"] for event in events} <= {"info", "warning"}
    assert sum("quarantined" in event["event"] for event in events) == len(NAMES)


def test_systemd_is_told_one_status_a_message(life: Life) -> None:
    assert any(message.startswith("STATUS=") for message in life.notified)
    for message in life.notified:
        assert is_harmless(message)
        assert all(re.match("[A-Z_]+=", line) for line in message.split("\n"))


def test_outputs_say_the_name_exactly_or_not_at_all(life: Life) -> None:
    for name in NAMES:
        original = os.fsencode(life.daemon.inbox) + b"/" + name
        with open(original + b".md", "rb") as file:  # noqa: PTH123 - bytes path
            assert re.fullmatch(r"page \d+×\d+\n", file.read().decode()), name
        with open(original + b".json", "rb") as file:  # noqa: PTH123 - bytes path
            assert is_harmless(file.read().decode())
        told = output(original)
        said = bytes.fromhex(told["name_bytes"]) if "name_bytes" in told else told["name"].encode()
        assert said == name


def test_a_terminal_is_shown_nothing_that_acts(life: Life) -> None:
    program = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    some = str(min(life.names))
    for verb in (["files", "--limit", "500"], ["show", some], ["status", "--once"], ["sql", "SELECT * FROM v_files"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *INBOXD, *verb, "--config", str(life.daemon.config)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, "NO_COLOR": "1"},
        )
        said = done.stdout.decode().replace("\r\n", "\n")
        assert said.count("\n") > 3
        assert is_harmless(said), verb
