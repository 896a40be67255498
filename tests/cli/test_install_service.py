"""Installing the service below the root of an image; tests/systemd does it on a machine that runs systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from inboxd import config
from inboxd.cli import install_service as verbs
from inboxd.errors import InboxdError, UsageError

PROGRAM = Path("/usr/bin/inboxd")


def install(root: Path, **more: object) -> None:
    given = {"inbox": (), "instance": None, "program": PROGRAM, "start": False, "root": root} | more
    assert verbs.install_service.callback is not None
    verbs.install_service.callback(**given)


def uninstall(root: Path, instance: str | None = None) -> None:
    assert verbs.uninstall_service.callback is not None
    verbs.uninstall_service.callback(instance=instance, root=root)


def test_it_puts_everything_in_place_and_a_second_time_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, inbox=[Path("/srv/scans")])
    written = capsys.readouterr().out
    assert all(line.startswith(("wrote", "made")) for line in written.splitlines())
    assert "ExecStart=/usr/bin/inboxd run" in (tmp_path / "etc/systemd/system/inboxd.service").read_text()
    assert (
        "ReadWritePaths=-/srv/scans" in (tmp_path / "etc/systemd/system/inboxd.service.d/10-folders.conf").read_text()
    )
    settings = config.load(tmp_path / "etc/inboxd/inboxd.toml")
    assert settings.state == "/var/lib/inboxd" and [inbox.path for inbox in settings.inbox] == ["/srv/scans"]
    assert (tmp_path / "srv/scans").is_dir()
    assert (tmp_path / "etc/sysusers.d/inboxd.conf").read_text().count("u inboxd") == 1

    install(tmp_path)
    again = capsys.readouterr().out
    assert again and all(line.startswith("unchanged") for line in again.splitlines())


def test_it_keeps_a_configuration_that_is_there(tmp_path: Path) -> None:
    install(tmp_path, inbox=[Path("/srv/scans")])
    with pytest.raises(UsageError, match=r"there already, and does not name /srv/other$"):
        install(tmp_path, inbox=[Path("/srv/scans"), Path("/srv/other")])
    file = tmp_path / "etc/inboxd/inboxd.toml"
    before = file.read_bytes()
    install(tmp_path, inbox=[Path("/srv/scans/")])  # as `init` may have written it
    assert file.read_bytes() == before
    file.write_text('state = "/mnt/fast/inboxd"\n[[inbox]]\npath = "/srv/b"\noutput_dir = "/srv/text"\n')
    install(tmp_path)
    opened = (tmp_path / "etc/systemd/system/inboxd.service.d/10-folders.conf").read_text()
    assert [line for line in opened.splitlines() if line.startswith("Read")] == [
        "ReadWritePaths=-/srv/b",
        "ReadWritePaths=-/srv/text",
        "ReadWritePaths=-/mnt/fast/inboxd",
    ]


def test_without_a_configuration_it_asks_for_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="etc/inboxd"):
        install(tmp_path)


def test_a_program_in_a_home_folder_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(InboxdError, match="home folder") as refused:
        install(tmp_path, program=Path("/home/anna/venv/bin/inboxd"))
    assert "/opt/inboxd/bin/pip install inboxd" in refused.value.advice


def test_an_instance_has_its_own_names(tmp_path: Path) -> None:
    install(tmp_path, instance="post", inbox=[Path("/srv/post")])
    assert config.load(tmp_path / "etc/inboxd/post.toml").state == "/var/lib/inboxd-post"
    assert (tmp_path / "etc/systemd/system/inboxd@.service").exists()
    assert (tmp_path / "etc/systemd/system/inboxd@post.service.d/10-folders.conf").exists()
    with pytest.raises(UsageError):
        install(tmp_path, instance="../x")


def test_uninstalling_leaves_what_people_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(tmp_path, inbox=[Path("/srv/scans")])
    install(tmp_path, instance="post", inbox=[Path("/srv/post")])
    install(tmp_path, instance="rest", inbox=[Path("/srv/rest")])
    template = tmp_path / "etc/systemd/system/inboxd@.service"
    for instance, left in (("post", True), ("rest", False), (None, False)):
        uninstall(tmp_path, instance)
        assert template.exists() is left
    uninstall(tmp_path)
    assert not list((tmp_path / "etc/systemd/system").iterdir())
    assert len(list((tmp_path / "etc/inboxd").iterdir())) == 3
    assert "/var/lib/inboxd" in capsys.readouterr().out
