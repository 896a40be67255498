"""The texts that systemd is given."""

from __future__ import annotations

from inboxd.core import unit
from inboxd.resources import folder


def test_the_program_takes_its_place_in_both_units() -> None:
    for name in ("inboxd.service", "inboxd@.service"):
        shipped = (folder("systemd") / name).read_text()
        placed = unit.with_program(shipped, "/usr/local/100% mine/inboxd")
        assert 'ExecStart="/usr/local/100%% mine/inboxd" run --config /etc/inboxd/' in placed
        assert unit.PROGRAM not in placed


def test_the_template_is_the_plain_unit_but_for_names() -> None:
    plain, template = (
        (folder("systemd") / name).read_text().split("[Unit]")[1] for name in ("inboxd.service", "inboxd@.service")
    )
    for of_one, of_many in (
        ("/etc/inboxd/inboxd.toml", "/etc/inboxd/%i.toml"),
        ("Description=inboxd:", "Description=inboxd %i:"),
        ("SyslogIdentifier=inboxd", "SyslogIdentifier=inboxd@%i"),
        ("StateDirectory=inboxd", "StateDirectory=inboxd-%i"),
        ("CacheDirectory=inboxd", "CacheDirectory=inboxd-%i"),
        ("/var/cache/inboxd", "/var/cache/inboxd-%i"),
    ):
        assert of_one in plain
        plain = plain.replace(of_one, of_many)
    assert plain == template


def test_folders_are_opened_for_writing() -> None:
    text = unit.folders(["/srv/scans", "/srv/scans", "/mnt/Büro/Post eingang"])
    assert text.splitlines()[1:] == [
        "[Service]",
        "ReadWritePaths=-/srv/scans",
        'ReadWritePaths="-/mnt/Büro/Post eingang"',
    ]


def test_folders_at_home_are_shown_one_by_one() -> None:
    lines = unit.folders(["/home/anna/a:b", "/homework"]).splitlines()
    assert lines[2:] == ["ProtectHome=tmpfs", "BindPaths=-/home/anna/a\\:b", "ReadWritePaths=-/homework"]


def test_a_folder_that_no_unit_file_can_name_is_opened_from_above() -> None:
    assert "ReadWritePaths=-/srv/x\n" in unit.folders(["/srv/x/caf\udce9/in"])
    assert "ReadWritePaths=-/srv/x\n" in unit.folders(["/srv/x/two\nlines"])


def test_homes_are_known() -> None:
    assert unit.is_hidden("/home/anna/.venv/bin/inboxd") and unit.is_hidden("/root")
    assert not unit.is_hidden("/homework/x") and not unit.is_hidden("/opt/inboxd/bin/inboxd")
