"""Installing the service below the root of an image; tests/systemd does it on a machine that runs systemd."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
from pathlib import Path

import pytest

from inboxd import config
from inboxd.cli import install_service as verbs
from inboxd.cli import installation
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
    with pytest.raises(UsageError, match=r"there already, and does not name /srv/other\n"):
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
        install(tmp_path / "root")
    assert not (tmp_path / "root").exists(), "what is refused leaves nothing behind"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives folders away")
def test_the_state_folder_is_there_before_the_first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo -u inboxd inboxd fetch-model` and `check` come before it."""
    monkeypatch.setattr(installation, "USER", "daemon")  # a user that every machine has
    monkeypatch.setattr(installation.Installation, "live", True)
    for module in (verbs, installation):
        monkeypatch.setattr(module, "tell", lambda *_command, **_more: "")  # no systemd here
    install(tmp_path, inbox=[Path("/srv/scans")])
    for folder, mode in (("var/lib/inboxd", 0o750), ("srv/scans", 0o2775)):
        status = (tmp_path / folder).stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, pwd.getpwnam("daemon").pw_uid)


def test_a_program_in_a_home_folder_is_refused_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(InboxdError, match="home folder") as refused:
        install(tmp_path, program=Path("/home/anna/venv/bin/inboxd"))
    assert "/opt/inboxd/bin/pip install CLONE" in refused.value.advice


def test_an_instance_has_its_own_names(tmp_path: Path) -> None:
    install(tmp_path, instance="post", inbox=[Path("/srv/post")])
    assert config.load(tmp_path / "etc/inboxd/post.toml").state == "/var/lib/inboxd-post"
    assert (tmp_path / "etc/systemd/system/inboxd@.service").exists()
    assert (tmp_path / "etc/systemd/system/inboxd@post.service.d/10-folders.conf").exists()
    with pytest.raises(UsageError):
        install(tmp_path, instance="../x")


def test_the_folders_that_it_makes_let_the_service_through_whatever_the_umask(tmp_path: Path) -> None:
    root = tmp_path / "root"
    umask = os.umask(0o077)
    try:
        install(root, inbox=[Path("/srv/dept/scans")])
    finally:
        os.umask(umask)
    made = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*")) if path.is_dir()}
    assert made.pop(root / "srv/dept/scans") == 0o2775
    assert made[root / "srv/dept"] == made[root / "etc/inboxd"] == 0o755
    assert set(made.values()) == {0o755}


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="tries it as another user")
def test_what_keeps_the_service_out_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "USER", "daemon")  # a user that every machine has
    closed, odd, file = tmp_path / "closed", tmp_path / os.fsdecode(b"caf\xe9\nbar"), tmp_path / "inboxd.toml"
    (closed / "below").mkdir(parents=True)
    (closed / "below").chmod(0o777)
    closed.chmod(0o750)
    odd.mkdir(mode=0o755)
    file.touch(0o640)
    folders = [str(closed / "below"), str(odd), str(tmp_path / "missing")]
    told = dict(installation.hindrances(file, folders))
    of_ours = [what for what in told if not what.endswith(tuple(map(str, (tmp_path, *tmp_path.parents))))]
    assert of_ours == [
        f"the user daemon may not pass through {closed}",
        f"the user daemon may not read {file}",
        f"the user daemon may not read and write in {tmp_path}/caf\\xe9\\u{{a}}bar",
    ]
    assert told[of_ours[0]] == f"setfacl -m u:daemon:x {closed}"
    assert told[of_ours[1]] == f"setfacl -m u:daemon:r {file}"
    closed.chmod(0o755)
    odd.chmod(0o777)
    file.chmod(0o644)
    told = dict(installation.hindrances(file, folders))
    assert not [what for what in told if not what.endswith(tuple(map(str, (tmp_path, *tmp_path.parents))))]


def test_homes_need_not_be_passed_through() -> None:
    """The service has the configured folders of a home, and an empty one round them."""
    assert installation._above(["/home/anna/scans", "/srv/a/b"]) == ["/", "/srv", "/srv/a"]


def test_uninstalling_leaves_others_the_user_that_they_run_as(tmp_path: Path) -> None:
    """In an image systemd makes the user at its first boot, by this file."""
    install(tmp_path, inbox=[Path("/srv/scans")])
    install(tmp_path, instance="post", inbox=[Path("/srv/post")])
    user = tmp_path / "etc/sysusers.d/inboxd.conf"
    uninstall(tmp_path)
    assert user.exists()
    uninstall(tmp_path, "post")
    assert not user.exists()
    install(tmp_path, instance="post", inbox=[Path("/srv/post")])
    install(tmp_path, inbox=[Path("/srv/scans")])
    uninstall(tmp_path, "post")
    assert user.exists()


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
