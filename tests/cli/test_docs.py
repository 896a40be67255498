"""The documents for users say what the program does: every setting, every exit code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest

from inboxd import config
from inboxd.errors import Exit

DOCS = Path(__file__).parents[2] / "docs"
SECTIONS: dict[str, type[msgspec.Struct]] = {
    "Top level": config.Settings,
    "`[[inbox]]`": config.Inbox,
    **{
        f"`[{field.name}]`": field.type
        for field in msgspec.structs.fields(config.Settings)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
    },
}


def documented(section: str) -> dict[str, str]:
    """Settings in that section's table, with their defaults as written there."""
    text = (DOCS / "configuration.md").read_text()
    (body,) = re.findall(rf"(?ms)^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text)
    return dict(re.findall(r"(?m)^\| `(\w+)` \| (.+?) \| .+ \|$", body))


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_is_documented_with_its_default(section: str) -> None:
    rows = documented(section)
    fields = {
        field.name: field
        for field in msgspec.structs.fields(SECTIONS[section])
        if f"`[{field.name}]`" not in SECTIONS and f"`[[{field.name}]]`" not in SECTIONS
    }
    assert rows.keys() == fields.keys()
    for name, field in fields.items():
        if field.required:
            assert rows[name] == "required"
        elif field.default is None:
            assert rows[name] == "none"
        else:
            assert tomllib.loads(f"x = {rows[name].strip('`')}")["x"] == _plain(field.default), name


MACHINE = """
import sys
from pathlib import Path
from inboxd import config
root = Path(sys.argv[1])
config.DEFAULT_CONFIG, config.DEFAULT_STATE = root / "etc/inboxd/inboxd.toml", root / "var/lib/inboxd"
from inboxd.cli import main
sys.exit(main(sys.argv[2:]))
"""
"""The program where nothing is installed yet, for root too."""


@pytest.mark.slow
@pytest.mark.parametrize(("document", "heading"), [("../README.md", "## Use it"), ("operators.md", "## Start")])
def test_the_first_steps_work_as_printed(tmp_path: Path, document: str, heading: str) -> None:
    (steps,) = re.findall(rf"(?s)\n{heading}\n.*?```sh\n(.*?)```", (DOCS / document).read_text())
    for step in (*steps.splitlines(), "inboxd status"):
        program, verb, *options = shlex.split(step, comments=True)
        assert program == "inboxd"
        assert not [option for option in options if option.startswith("/")], "a user may not make that"
        command = [verb, *map(os.path.expanduser, options), *(["--until-drained"] if verb == "run" else [])]
        done = subprocess.run([sys.executable, "-c", MACHINE, tmp_path, *command], capture_output=True, check=False)
        assert done.returncode == 0, (step, done.stdout, done.stderr)


def test_the_smallest_file_works() -> None:
    (example,) = re.findall(r"(?s)```toml\n(.*?)```", (DOCS / "configuration.md").read_text())
    assert config.parse(example.encode(), "the docs").inbox[0].path == "/srv/scans"


def test_every_exit_code_is_documented() -> None:
    text = (DOCS / "exit-codes.md").read_text()
    listed = {int(code) for code in re.findall(r"(?m)^\| (\d+) \|", text)}
    assert listed == {*map(int, Exit), 130, 141}


def test_links_between_the_documents_lead_somewhere() -> None:
    for file in (DOCS.parent / "README.md", *DOCS.rglob("*.md")):
        for target, heading in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", file.read_text()):
            other = file.parent / target if target else file
            assert other.exists(), f"{file} → {target}"
            assert not heading or heading in _anchors(other), f"{file} → {target}#{heading}"


def test_the_readme_leads_to_every_document() -> None:
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", (DOCS.parent / "README.md").read_text()))
    assert linked == {file.name for file in DOCS.glob("*.md")}


def _anchors(file: Path) -> set[str]:
    """What GitHub calls the headings of a document in links."""
    headings = re.findall(r"(?m)^#+ (.+)$", file.read_text())
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
