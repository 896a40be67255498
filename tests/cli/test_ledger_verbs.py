"""The verbs that ask and change the ledger, against real ones."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ledger.clerk import Clerk, page_reading

from inboxd.core.lifecycle import FileState
from inboxd.ledger import arrivals, claims, deliveries, lock, runs, upkeep
from inboxd.ledger.opening import Ledger
from inboxd.model import PageState

from .conftest import Inboxd

HOSTILE = b"\x1b[31m[red]caf\xe9\n\xe2\x80\xae.pdf"  # an escape, rich's markup, Latin-1, a newline, a bidi override
SHOWN = r"\u{1b}[31m[red]caf\xe9\u{a}\u{202e}.pdf"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text(f'state = "{tmp_path}/state"\n[[inbox]]\npath = "/srv/scans"\n')
    return file


@pytest.fixture
def clerk(config: Path) -> Iterator[Clerk]:
    """A ledger with a done file, a hostile quarantined one, one that settles and one that is being read."""
    with Ledger.open(config.parent / "state" / "ledger.sqlite") as ledger:
        clerk = Clerk(ledger)
        clerk.finished(b"invoice.pdf", 2, text="Rechnung über 5 Äpfel\n请支付发票")
        clerk.do(arrivals.quarantine, clerk.drop(HOSTILE), "the document is \x1b[1mencrypted")
        clerk.do(arrivals.waiting, clerk.see(b"sub/slow.pdf"), "still growing")
        clerk.open(b"book.pdf", 3)
        clerk.finish(clerk.claim_pages(1)[0])
        yield clerk


def test_files_lists_what_there_is(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    ended = inboxd("files", "--config", config)
    assert ended.code == 0
    header, *rows = ended.out.splitlines()
    assert header.split() == ["id", "state", "pages", "path", "reason", "first", "seen"]
    assert len(rows) == 4
    assert "1/3" in rows[0]
    assert f"/srv/scans/{SHOWN}" in ended.out
    assert "\x1b" not in ended.out


def test_files_filters(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    told = json.loads(inboxd("files", "--json", "--state", "quarantined", "--config", config).out)
    assert [(row["name"], row["state"]) for row in told] == [(SHOWN, "quarantined")]
    assert inboxd("files", "--limit", "1", "--config", config).out.count("\n") == 2
    assert len(json.loads(inboxd("files", "--json", "--inbox", "/srv/scans/", "--config", config).out)) == 4
    ended = inboxd("files", "--inbox", "/srv/other", "--config", config)
    assert ended.code == 64
    assert "/srv/scans" in ended.err


@pytest.mark.parametrize("way", ["invoice.pdf", "scans/invoice.pdf", "/srv/scans/invoice.pdf", "1"])
def test_show_finds_a_file_by_path_end_of_path_and_id(inboxd: Inboxd, config: Path, clerk: Clerk, way: str) -> None:
    ended = inboxd("show", way, "--config", config)
    assert ended.code == 0, ended.err
    for told in ("/srv/scans/invoice.pdf (id 1)", "done", "2 pages (2 ok)", "invoice.pdf.md", "History"):
        assert told in ended.out


def test_show_json_has_everything(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    told = json.loads(inboxd("show", "invoice.pdf", "--json", "--config", config).out)
    assert told.keys() == {"file", "versions", "pages", "outputs", "events"}
    assert told["file"]["state"] == "done"
    assert [page["state"] for page in told["pages"]] == ["ok", "ok"]
    assert told["outputs"][0]["path"] == "/srv/scans/invoice.pdf.md"
    assert told["events"]


def test_show_of_a_hostile_name_writes_nothing_on_the_screen(process: Inboxd, config: Path, clerk: Clerk) -> None:
    for way in (b"/srv/scans/" + HOSTILE, HOSTILE, SHOWN.encode()):
        ended = process("show", way, "--config", config)
        assert ended.code == 0, ended.err
        assert f"/srv/scans/{SHOWN}" in ended.out
        assert "\x1b" not in ended.out
        assert "\u202e" not in ended.out


def test_show_says_what_was_noticed_of_a_page(inboxd: Inboxd, config: Path) -> None:
    said = "MuPDF says: \x1b[2Ja broken image"
    with Ledger.open(config.parent / "state" / "ledger.sqlite") as ledger:
        clerk = Clerk(ledger)
        clerk.finished(b"invoice.pdf")
        clerk.open(b"broken.pdf", 2)
        for claim in clerk.claim_pages():
            page = replace(page_reading(claim.number), warnings=(said,) if claim.number == 2 else ())
            clerk.do(claims.finish_page, claim.page, page)
    told = inboxd("show", "broken.pdf", "--config", config).out
    assert re.search(r"\nNoticed\n.*\n *2 +MuPDF says: \S*\[2Ja broken image *\n", told)
    assert "\x1b" not in told
    assert "Noticed" not in inboxd("show", "invoice.pdf", "--config", config).out
    pages = json.loads(inboxd("show", "broken.pdf", "--json", "--config", config).out)["pages"]
    assert [page["warnings"] for page in pages] == [[], [said]]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_what_a_page_says_is_shown_and_not_obeyed(inboxd: Inboxd, config: Path, form: tuple[str, ...]) -> None:
    page = "before \x1b[2J\x1b]0;title\x07\x1b]8;;http://x\x1b\\ secret \x9b31m \r\x08 \u202e\u061c\u2066 after"
    with Ledger.open(config.parent / "state" / "ledger.sqlite") as ledger:
        Clerk(ledger).finished(b"evil.pdf", 1, text=page)
    for command in (
        ("search", "secret"),
        ("search", "after"),
        ("show", "evil.pdf"),
        ("sql", "SELECT * FROM pages"),
        ("sql", "SELECT text FROM pages WHERE text LIKE '%secret%'"),
    ):
        ended = inboxd(*command, *form, "--config", config)
        assert ended.code == 0, ended.err
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u202e\u2066]", ended.out), command
        if command[0] != "show":
            assert "secret" in ended.out


def test_show_of_nothing_and_of_too_much_says_what_to_do(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    ended = inboxd("show", "nonesuch.pdf", "--config", config)
    assert ended.code == 1
    assert "inboxd ignored" in ended.err
    clerk.finished(b"a/same.pdf")
    clerk.finished(b"b/same.pdf", content="other")
    ended = inboxd("show", "same.pdf", "--config", config)
    assert ended.code == 1
    assert "/srv/scans/a/same.pdf" in ended.err
    assert "/srv/scans/b/same.pdf" in ended.err
    assert "id" in ended.err


def test_numbers_beyond_sqlite_are_no_crash(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    assert inboxd("show", "9" * 30, "--config", config).code == 1
    assert inboxd("files", "--limit", "9" * 30, "--config", config).code == 64
    assert inboxd("prune", "--events-days", "9" * 9, "--config", config).code == 64


@pytest.mark.parametrize("verb", ["show", "requeue", "search"])
def test_words_that_are_not_utf_8_are_no_crash(process: Inboxd, config: Path, clerk: Clerk, verb: str) -> None:
    """As a shell in a Latin-1 locale types them; of two characters, too, which no index finds."""
    for asked in (b"nonesuch\xe9.pdf", b"n\xe9"):
        ended = process(verb, asked, "--config", config)
        assert ended.code == 1
        assert "Traceback" not in ended.err
        assert ended.err.startswith("No page has" if verb == "search" else "inboxd: the ledger knows no file n")


def test_show_tells_why_outputs_are_owed(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    clerk.do(deliveries.undelivered, clerk.read(b"x.pdf"), "the folder is read-only", clerk.now + 60)
    assert "still to be written: the folder is read-only" in inboxd("show", "x.pdf", "--config", config).out
    assert "/srv/scans/x.pdf: the folder is read-only" in inboxd("status", "--config", config).out


def test_requeue_by_name_by_state_and_failed(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    assert inboxd("requeue", "invoice.pdf", "--config", config).out == "1 file will be read again.\n"
    assert clerk.state(clerk.sql("SELECT id FROM files WHERE path LIKE '%invoice%'")[0][0]) is FileState.SETTLING
    clerk.finish(clerk.claim_pages(1)[0], "", PageState.FAILED)  # of the book
    assert inboxd("requeue", "--failed", "--config", config).out == "2 files will be read again.\n"
    assert inboxd("requeue", "--state", "done", "--config", config).out == "0 files will be read again.\n"
    ended = inboxd("requeue", "invoice.pdf", "nonesuch", "--config", config)
    assert ended.code == 1


def test_what_the_archive_has_is_not_requeued(inboxd: Inboxd, tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    config = tmp_path / "c.toml"
    config.write_text(f'state = "{tmp_path}/state"\n[[inbox]]\npath = "{folder}"\n')
    with Ledger.open(tmp_path / "state" / "ledger.sqlite") as ledger:
        clerk = Clerk(ledger, os.fsencode(folder))
        moved = clerk.read(b"\xe9.pdf", 1)
        clerk.do(deliveries.delivered, moved, [], archiving=True)
        clerk.do(deliveries.archived, moved, b"/archive/\xe9.pdf")
        ended = inboxd("requeue", str(moved), "--config", config)
        assert ended.code == 1
        assert rf"{folder}/\xe9.pdf is in the archive: /archive/\xe9.pdf" in ended.err
        assert "move it back" in ended.err
        ended = inboxd("requeue", "--state", "done", "--config", config)
        assert ended.code == 0
        assert ended.out.startswith("0 files will be read again.\n1 left as they are: the archive has their originals.")
        assert clerk.state(moved) is FileState.DONE
        (folder / os.fsdecode(b"\xe9.pdf")).touch()
        assert inboxd("requeue", str(moved), "--config", config).out == "1 file will be read again.\n"
        assert clerk.state(moved) is FileState.SETTLING


def test_pause_and_resume(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    assert inboxd("pause", "--config", config).code == 0
    assert clerk.do(lambda conn, now: runs.paused(conn)) is True
    assert "Paused" in inboxd("status", "--config", config).out
    assert inboxd("resume", "--config", config).code == 0
    assert clerk.do(lambda conn, now: runs.paused(conn)) is False


@pytest.mark.parametrize("words", [["rechnung"], ["äpfel"], ["请支付"], ["发票"], ['"5 Äpfel"'], ["Rechnung", "Äpfel"]])
def test_search_finds_words_in_any_script(inboxd: Inboxd, config: Path, clerk: Clerk, words: list[str]) -> None:
    ended = inboxd("search", *words, "--config", config)
    assert ended.code == 0
    assert "/srv/scans/invoice.pdf, page 1" in ended.out
    hit = json.loads(inboxd("search", "--json", *words, "--config", config).out)[0]
    assert hit.keys() == {"file", "path", "page", "snippet", "marks"}


def test_search_without_a_hit_is_1(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    ended = inboxd("search", "nonesuch", "--config", config)
    assert ended.code == 1
    assert ended.out == ""
    ended = inboxd("search", "--json", "nonesuch", "--config", config)
    assert (ended.code, ended.out) == (1, "[]\n")


def test_sql_prints_a_table_json_and_csv(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    query = "SELECT id, name, x'c3ff' AS blob, NULL AS none, 1.5 AS real FROM v_files WHERE id <= 2 ORDER BY id"
    table = inboxd("sql", query, "--config", config).out.splitlines()
    assert table[0].split() == ["id", "name", "blob", "none", "real"]
    assert table[1].split() == ["1", "invoice.pdf", "c3ff", "1.5"]
    rows = json.loads(inboxd("sql", "--json", query, "--config", config).out)
    assert rows[0] == {"id": 1, "name": "invoice.pdf", "blob": "c3ff", "none": None, "real": 1.5}
    assert rows[1]["name"] == SHOWN
    parsed = list(csv.reader(io.StringIO(inboxd("sql", "--csv", query, "--config", config).out)))
    assert parsed == [
        ["id", "name", "blob", "none", "real"],
        ["1", "invoice.pdf", "c3ff", "", "1.5"],
        ["2", SHOWN, "c3ff", "", "1.5"],
    ]


def test_sql_of_nothing_is_still_an_answer(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    assert inboxd("sql", "--json", "SELECT 1 WHERE 0", "--config", config).out == "[]\n"
    assert inboxd("sql", "--csv", "SELECT 1 AS a WHERE 0", "--config", config).out == "a\n"


def test_sql_says_odd_values(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    query = """
        SELECT 1 AS a, 2 AS a, 3 AS a, 9e999 AS big, char(27) || '[31m' || char(10) || 'x,"y"' AS nasty, '' AS empty
    """
    told = inboxd("sql", "--json", query, "--config", config)
    (row,) = json.loads(told.out)
    assert (row["a"], row["a_2"], row["a_3"], row["big"], row["empty"]) == (1, 2, 3, "inf", "")
    assert row["nasty"] == '\x1b[31m\nx,"y"'
    assert "\x1b" not in told.out
    for form in ((), ("--csv",)):
        assert "\x1b" not in inboxd("sql", *form, query, "--config", config).out


def test_sql_shows_text_that_is_not_utf_8(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    """As names of files may be."""
    clerk.drop(b"caf\xe9.pdf")
    query = "SELECT CAST(name AS TEXT) AS name FROM files"
    for form, told in (((), r"caf\xe9.pdf"), (("--csv",), r"caf\xe9.pdf"), (("--json",), r'"caf\udce9.pdf"')):
        assert told in inboxd("sql", *form, query, "--config", config).out


@pytest.mark.parametrize(
    "wrong",
    [
        "DELETE FROM files",
        "SELECT 1; DROP TABLE files",
        "SELEC 1",
        "SELECT nonesuch FROM v_files",
        "PRAGMA journal_mode = DELETE",
        "ATTACH '/tmp/x' AS x",
        "VACUUM",
        "",
    ],
)
def test_sql_changes_nothing_and_says_why_in_plain_words(
    inboxd: Inboxd, config: Path, clerk: Clerk, wrong: str
) -> None:
    ended = inboxd("sql", wrong, "--config", config)
    assert ended.code == 64
    assert ended.err.startswith("inboxd: ")
    assert "Traceback" not in ended.err
    assert clerk.sql("SELECT count(*) FROM files") == [(4,)]


FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_sql_gives_up_in_time(process: Inboxd, config: Path, clerk: Clerk) -> None:
    ended = process("sql", "--timeout", "0.2", FOREVER, "--config", config)
    assert ended.code == 1
    assert "took longer than 0.2 s" in ended.err


@pytest.mark.parametrize("seconds", ["inf", "1e300", "nan"])
def test_sql_takes_no_timeout_that_no_clock_can_count(
    process: Inboxd, config: Path, clerk: Clerk, seconds: str
) -> None:
    ended = process("sql", "--timeout", seconds, "SELECT 1", "--config", config)
    assert (ended.code, ended.out) == (64, "")
    assert "--timeout" in ended.err


def test_sql_obeys_ctrl_c_inside_a_query(config: Path, clerk: Clerk) -> None:
    """The first rows say that the query runs; it would never end."""
    query = FOREVER.replace("count(*)", "i || hex(zeroblob(500))")
    command = [sys.executable, "-m", "inboxd", "sql", "--json", query, "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        for _ in child.stdout:
            pass
        assert child.wait(60) == -signal.SIGINT


def test_sql_reads_the_query_from_stdin(process: Inboxd, config: Path, clerk: Clerk) -> None:
    assert json.loads(process("sql", "--json", "-", "--config", config, stdin="SELECT 7 AS x").out) == [{"x": 7}]


def test_status_tells_what_goes_on(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    clerk.do(runs.inbox_state, clerk.inbox, "unavailable", "the share is not mounted")
    ended = inboxd("status", "--config", config)
    assert ended.code == 0
    for told in (
        "No daemon runs",
        "/srv/scans",
        "unavailable since",
        "the share is not mounted",
        "1 settling, 1 reading, 1 done, 1 quarantined",
        "inboxd files --state quarantined",
        "/srv/scans/sub/slow.pdf: still growing",
        "Reading /srv/scans/book.pdf: 1 of 3 pages",
    ):
        assert told in ended.out, told


def test_an_inbox_that_was_not_looked_at_yet_is_told(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    assert "/srv/scans: not looked at yet" in inboxd("status", "--config", config).out


def test_status_json(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    told = json.loads(inboxd("status", "--json", "--config", config).out)
    parts = {"daemon", "paused", "run", "engines_missing", "inboxes", "files", "pages", "reading", "waiting", "owed"}
    assert told.keys() == parts
    assert told["daemon"] is None
    assert told["files"]["done"] == 1
    assert told["inboxes"][0]["files"] == {"settling": 1, "reading": 1, "done": 1, "quarantined": 1}
    assert told["pages"]["done"] == 3


def test_status_knows_a_running_daemon(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    with lock.own(config.parent / "state" / "ledger.sqlite"):
        assert f"inboxd runs (pid {os.getpid()}, since 2" in inboxd("status", "--config", config).out
        assert json.loads(inboxd("status", "--json", "--config", config).out)["daemon"]["pid"] == os.getpid()
    assert json.loads(inboxd("status", "--json", "--config", config).out)["daemon"] is None


def test_status_says_which_of_several_engines_are_missing(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    missing = "1 of 2 engines: GPU 1: GPU 1 (NVIDIA H200) no longer answers"
    clerk.do(upkeep.engines, clerk.run, missing)
    with lock.own(config.parent / "state" / "ledger.sqlite"):
        assert f"\n  {missing}\n" in inboxd("status", "--config", config).out
        assert json.loads(inboxd("status", "--json", "--config", config).out)["engines_missing"] == missing
    assert missing not in inboxd("status", "--config", config).out, "no daemon runs, no engine is missing"
    clerk.do(upkeep.engines, clerk.run, "")
    with lock.own(config.parent / "state" / "ledger.sqlite"):
        assert "engines" not in inboxd("status", "--config", config).out
    clerk.do(upkeep.engines, clerk.run, missing)
    clerk.do(runs.start_run, version="2", pid=1, boot_id="")
    with lock.own(config.parent / "state" / "ledger.sqlite"):
        assert "engines" not in inboxd("status", "--config", config).out, "another life has other engines"


def test_looking_does_not_keep_a_daemon_from_starting(
    config: Path, clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody looks at the very moment: `own` tries again."""
    path = config.parent / "state" / "ledger.sqlite"
    with lock.own(path):
        pass
    holder = os.open(path.with_name("ledger.sqlite.lock"), os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            os.close(holder)

    monkeypatch.setattr(lock.time, "sleep", pause)
    with lock.own(path):
        assert lock.owner(path) is not None
    assert len(pauses) == 2


def test_status_is_quick_and_light(config: Path, clerk: Clerk) -> None:
    script = (
        "import sys; from inboxd.cli import main; code = main(sys.argv[1:]); "
        "print(*sorted({module.partition('.')[0] for module in sys.modules}), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "status", "--config", config], capture_output=True, text=True, check=True
    )
    heavy = {"torch", "cv2", "pymupdf", "sqlalchemy", "alembic", "numpy", "rich", "structlog", "asyncio", "pynvml"}
    assert not heavy & set(done.stderr.split())


def test_prune_forgets_old_history_only(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    """The clerk's history is from January 2026."""
    (events,) = clerk.sql("SELECT count(*) FROM events")[0]
    assert inboxd("prune", "--dry-run", "--config", config).out.startswith(f"{events} events and 0 samples would")
    assert inboxd("prune", "--events-days", "0", "--config", config).out.startswith("0 events")
    assert inboxd("prune", "--config", config).out.startswith(f"{events} events and 0 samples forgotten")
    assert clerk.sql("SELECT count(*) FROM events") == [(0,)]
    assert clerk.sql("SELECT count(*) FROM files") == [(4,)]


@pytest.mark.parametrize(
    "verb", ["status", "files", "show x", "requeue x", "pause", "resume", "search x", "sql x", "prune"]
)
def test_without_a_ledger_every_verb_says_so(inboxd: Inboxd, config: Path, verb: str) -> None:
    ended = inboxd(*verb.split(), "--config", config)
    assert ended.code == 78
    assert "there is no ledger at" in ended.err
    assert not (config.parent / "state").exists()


def test_a_file_that_is_no_ledger_is_told(inboxd: Inboxd, config: Path) -> None:
    (config.parent / "state").mkdir()
    (config.parent / "state" / "ledger.sqlite").write_bytes(b"not a database at all, but long enough to look at" * 99)
    for verb in ("status", "pause"):
        ended = inboxd(verb, "--config", config)
        assert ended.code == 78
        assert "Traceback" not in ended.err


def test_pages_that_failed_are_told(inboxd: Inboxd, config: Path, clerk: Clerk) -> None:
    file = clerk.open(b"bad.pdf", 2)
    first, second = (page for page in clerk.claim_pages(9) if page.file == file)
    clerk.finish(first)
    clerk.finish(second, "", PageState.FAILED)
    clerk.deliver(file, b"bad.pdf")
    ended = inboxd("show", "bad.pdf", "--config", config)
    assert "2 pages (1 ok, 1 failed)" in ended.out
    assert "it looks odd" in ended.out
