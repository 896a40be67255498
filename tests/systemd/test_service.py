"""inboxd under a real systemd: start, stop, hang, recycle, reload, storms, and who may touch what."""

from __future__ import annotations

import time

import pytest
from tests.systemd.machine import CHECKOUT, Machine, until
from tests.systemd.service import CONFIG, INBOX, INBOXD, STATE, Service

pytestmark = pytest.mark.systemd

PAGES = 40
READ = "SELECT count(*) FROM pages WHERE state IN ('ok', 'blank', 'suspect')"
DONE = "SELECT count(*) FROM files WHERE state = 'done'"


@pytest.mark.parametrize("name", ["inboxd.service", "inboxd@example.service"])
def test_the_unit_is_without_fault_and_closed_up(machine: Machine, service: Service, name: str) -> None:
    """`systemd-analyze verify` ends with 0 for unknown keys and bad values too: what it prints is what counts."""
    machine.run("cp", "/opt/checkout/systemd/inboxd@.service", "/etc/systemd/system/")
    verified = machine.run("systemd-analyze", "verify", name)
    assert (verified.stdout, verified.stderr) == ("", "")
    file = f"/etc/systemd/system/{name.replace('example', '')}"
    machine.run("systemd-analyze", "security", "--offline=true", "--threshold=20", file)


def test_its_user_can_look_before_the_first_start(machine: Machine, service: Service) -> None:
    machine.run("rm", "-r", STATE)
    machine.run(INBOXD, "install-service", "--program", INBOXD)
    machine.run("setpriv", "--reuid=inboxd", "--regid=inboxd", "--init-groups", INBOXD, "check")


def test_a_whole_life(machine: Machine, service: Service) -> None:
    service.start()
    assert (service.property("ActiveState"), service.property("SubState")) == ("active", "running")
    assert machine.sh(f"stat -c %U /proc/{service.property('MainPID')}").strip() == "inboxd"
    service.drop("a.pdf", 2)
    service.wait_sql(DONE, 1)
    assert "read with patience" in machine.sh(f"cat {INBOX}/a.pdf.md")
    until(lambda: ", 2 read, " in service.property("StatusText"), lambda: service.property("StatusText"))
    assert service.property("StatusText").startswith("idle, ")
    assert "sandbox" not in "".join(entry["MESSAGE"] for entry in service.entries("MESSAGE"))

    began = time.monotonic()
    machine.run("systemctl", "stop", "inboxd")
    assert time.monotonic() - began < 20
    assert (service.property("Result"), service.property("ActiveState")) == ("success", "inactive")
    assert service.processes() == []
    [(code, reason)] = service.sql("SELECT exit_code, reason FROM runs")
    assert code == 0 and "SIGTERM" in reason


def test_the_journal_has_priorities_and_one_line_an_event(service: Service) -> None:
    service.start()
    service.machine.run("systemctl", "stop", "inboxd")
    entries = service.entries("PRIORITY", "MESSAGE")
    [starts] = [entry for entry in entries if "inboxd starts" in entry["MESSAGE"]]
    assert starts["PRIORITY"] == "6"
    assert not [entry for entry in entries if entry["MESSAGE"].startswith("<")]


def test_stop_in_mid_document_leaves_nothing_claimed(service: Service) -> None:
    service.order("delay", "0.5")
    service.start()
    service.drop("long.pdf", PAGES)
    service.wait_sql(READ, 4)
    began = time.monotonic()
    service.machine.run("systemctl", "stop", "inboxd")
    assert time.monotonic() - began < 20
    assert service.property("Result") == "success"
    assert service.sql("SELECT count(*) FROM pages WHERE state = 'in_flight'") == [[0]]
    assert service.processes() == []


def test_ill_memory_ends_the_life_and_the_next_one_goes_on_in_the_same_document(service: Service) -> None:
    """The whole point: a check that trips, 75, and every page of a document read once, over two lives."""
    service.machine.write("/etc/inboxd/inboxd.toml", CONFIG + "[health]\ninterval = 0.2\nsamples = 3\nmin_life = 1.0\n")
    service.order("delay", "0.3")
    service.start()
    service.drop("long.pdf", PAGES)
    service.wait_sql(READ, 8)
    service.order("ill")
    service.wait_property("NRestarts", "1")
    service.revoke("ill")
    service.wait_sql(DONE, 1)

    lives = service.sql("SELECT exit_code, reason FROM runs ORDER BY id")
    assert lives[0][0] == 75 and "fragmentation 50.0%" in lives[0][1]
    assert lives[1][0] is None and len(lives) == 2
    reads = service.reads()
    assert len(set(reads)) == PAGES, "no page is lost"
    assert len(reads) == PAGES, "no page is read twice"
    assert service.sql(
        "SELECT count(DISTINCT b.run), max(p.attempts) FROM pages p JOIN batches b ON b.id = p.batch"
    ) == [[2, 1]]
    assert service.sql(
        "SELECT count(*) > 5, min(json_extract(extra, '$.fragmentation')) < 0.1 FROM memory_samples"
    ) == [[1, 1]]


def test_a_recycle_asked_for_by_hand(service: Service) -> None:
    service.start()
    service.machine.run(INBOXD, "recycle")
    service.wait_property("NRestarts", "1")
    service.wait_property("ActiveState", "active")
    [(code, reason)] = service.sql("SELECT exit_code, reason FROM runs WHERE ended IS NOT NULL")
    assert code == 75 and "asked" in reason


def test_a_hang_is_caught_and_shown_and_the_next_life_goes_on(service: Service) -> None:
    service.start()
    service.order("hang")
    service.drop("a.pdf", 3)
    service.wait_property("NRestarts", "1")
    service.revoke("hang")
    service.wait_sql(DONE, 1)
    journal = service.journal()
    assert "Watchdog timeout" in journal
    assert "inboxd_patient.py" in journal, "Python says where it stood"
    assert len(set(service.reads())) == 3


def test_a_room_that_waits_for_ever_is_no_progress(service: Service) -> None:
    """The loop turns, and the engine never comes back from being closed after it was lost."""
    service.machine.write("/etc/inboxd/inboxd.toml", CONFIG.replace('"patient"', '"patient"\npage_timeout = 0.5'))
    service.order("delay", "3600")
    service.order("stuck")
    service.start()
    service.drop("a.pdf", 1)
    service.wait_property("NRestarts", "1")
    service.revoke("stuck")
    service.order("delay", "0")
    service.wait_sql(DONE, 1)
    assert "no progress" in service.journal()


def test_a_daemon_that_is_killed_leaves_no_process_and_loses_no_page(service: Service) -> None:
    service.order("delay", "0.2")
    service.start()
    service.drop("long.pdf", PAGES)
    service.wait_sql(READ, 5)
    before = service.processes()
    service.machine.run("kill", "-KILL", service.property("MainPID"))
    service.wait_property("NRestarts", "1")
    service.wait_sql(DONE, 1)
    assert not set(before) & set(service.processes())
    assert len(set(service.reads())) == PAGES
    assert service.sql("SELECT count(*) FROM pages WHERE state = 'ok'") == [[PAGES]]


def test_a_configuration_that_is_wrong_is_said_once_and_not_retried(service: Service) -> None:
    service.machine.write("/etc/inboxd/inboxd.toml", CONFIG + "[health]\nfragmentatoin = 0.2\n")
    assert service.machine.run("systemctl", "start", "inboxd", check=False).returncode != 0
    service.wait_property("ActiveState", "failed")
    assert service.property("NRestarts") == "0"
    assert service.property("ExecMainStatus") == "78"
    assert "fragmentatoin" in service.journal()


def test_a_defect_is_shown_and_another_life_begins(service: Service) -> None:
    service.order("defect")
    service.machine.run("systemctl", "start", "inboxd", check=False)
    until(lambda: int(service.property("NRestarts")) >= 1, service.journal)
    service.revoke("defect")
    service.drop("a.pdf", 1)
    service.wait_sql(DONE, 1)
    [code, reason] = service.sql("SELECT exit_code, reason FROM runs ORDER BY id LIMIT 1")[0]
    assert code == 70 and "what nobody foresaw" in reason
    assert "Traceback" in service.journal() and "status=70" in service.journal()


def test_a_storm_of_crashes_is_stopped(service: Service) -> None:
    service.order("crash")
    service.machine.run("systemctl", "start", "inboxd", check=False)
    service.wait_property("ActiveState", "failed", 180)
    assert "Start request repeated too quickly" in service.journal()
    service.revoke("crash")
    service.machine.run("systemctl", "reset-failed", "inboxd")
    service.start()
    assert service.property("ActiveState") == "active"


def test_reload_takes_what_it_can_and_names_the_rest(service: Service) -> None:
    service.start()
    pid = service.property("MainPID")
    change = CONFIG.replace("drain_timeout = 10.0", 'drain_timeout = 11.0\nlog_level = "debug"')
    service.machine.write("/etc/inboxd/inboxd.toml", change)
    service.machine.run("systemctl", "reload", "inboxd")
    until(lambda: "drain_timeout" in service.journal(), "what can't change live is said")
    assert "log_level" in service.journal()

    service.machine.write("/etc/inboxd/inboxd.toml", "nonsense")
    service.machine.run("systemctl", "reload", "inboxd")
    until(lambda: "not valid TOML" in service.journal(), "a wrong configuration is said")
    service.drop("a.pdf", 1)
    service.wait_sql(DONE, 1)
    service.wait_property("ActiveState", "active")
    assert (service.property("MainPID"), service.property("NRestarts")) == (pid, "0")


def test_it_may_write_in_its_folders_and_nowhere_else(service: Service) -> None:
    service.start()
    as_service = ("setpriv", "--reuid=inboxd", "--regid=inboxd", "--init-groups", "--", "sh", "-c")
    inside = ("nsenter", "-t", service.property("MainPID"), "-m", "--", *as_service)
    tries = "for f in %s/x %s/x /etc/x /usr/x /opt/x /var/x; do touch $f 2>/dev/null && echo $f; done; true"
    written = service.machine.run(*inside, tries % (INBOX, STATE)).stdout.split()
    assert written == [f"{INBOX}/x", f"{STATE}/x"]
    status = service.machine.sh(f"cat /proc/{service.property('MainPID')}/status")
    assert "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status and "Seccomp:\t2" in status


def test_an_output_belongs_to_the_group_of_its_original(service: Service) -> None:
    """Whoever may read the scan may read its text: the service's user is a member of the scanners' group."""
    service.machine.sh(f"groupadd -f scanners; chmod 775 {INBOX}")
    service.machine.write(
        "/etc/systemd/system/inboxd.service.d/50-group.conf", "[Service]\nSupplementaryGroups=scanners\n"
    )
    service.machine.run("systemctl", "daemon-reload")
    service.start()
    service.drop("a.pdf", 1, owner="12345:scanners", mode="640")
    service.wait_sql(DONE, 1)
    assert service.machine.sh(f"stat -c '%U:%G %a' {INBOX}/a.pdf.md").strip() == "inboxd:scanners 640"


def test_a_share_that_is_mounted_later_is_seen_and_written(service: Service) -> None:
    service.start()
    service.machine.sh(f"mount -t tmpfs -o mode=777 tmpfs {INBOX}")
    try:
        service.drop("a.pdf", 1)
        service.wait_sql(DONE, 1)
        assert "read with patience" in service.machine.sh(f"cat {INBOX}/a.pdf.md")
    finally:
        service.machine.run("systemctl", "stop", "inboxd")
        service.machine.sh(f"umount {INBOX}")


@pytest.mark.parametrize("folder", ["/home/anna/Eingang (neu): 100%", "/srv/Büro post/Eingang"])
def test_folders_with_odd_names_and_in_homes_are_opened(service: Service, folder: str) -> None:
    service.machine.run("mkdir", "-p", folder)
    service.machine.run("chown", "inboxd:", folder)
    service.machine.write("/etc/inboxd/inboxd.toml", CONFIG.replace(INBOX, folder))
    service.machine.run(INBOXD, "install-service", "--program", INBOXD)
    service.start()
    service.drop("a.pdf", 1)
    service.machine.run("mv", f"{INBOX}/a.pdf", folder)
    service.wait_sql(DONE, 1)
    assert "read with patience" in service.machine.run("cat", f"{folder}/a.pdf.md").stdout


def test_installing_again_changes_nothing_and_uninstalling_keeps_the_ledger(service: Service) -> None:
    again = service.machine.run(INBOXD, "install-service", "--program", INBOXD).stdout
    assert "wrote" not in again
    service.start()
    service.wait_sql("SELECT count(*) FROM runs", 1)
    service.machine.run("rm", "/etc/systemd/system/inboxd.service.d/90-haste.conf")
    said = service.machine.run(INBOXD, "uninstall-service").stdout
    assert STATE in said
    assert service.property("LoadState") == "not-found"
    assert len(service.sql("SELECT exit_code FROM runs WHERE exit_code = 0")) == 1
    assert service.machine.sh("ls /etc/inboxd").strip() == "inboxd.toml"


@pytest.mark.slow
def test_the_cpu_engine_reads_behind_closed_doors(service: Service) -> None:
    """The drop-in that docs/systemd.md recommends without a GPU, and real text."""
    text = (CHECKOUT / "docs/systemd.md").read_text()
    closed = text[text.index("PrivateNetwork=") :].split("```")[0]
    service.machine.write("/etc/systemd/system/inboxd.service.d/20-offline.conf", f"[Service]\n{closed}")
    service.machine.run("systemctl", "daemon-reload")
    service.machine.write("/etc/inboxd/inboxd.toml", CONFIG.replace('"patient"', '"cpu"\nworkers = 1'))
    service.start()
    service.drop("a.pdf", 1, words="Behind closed doors")
    service.wait_sql(DONE, 1)
    assert "Behind closed doors" in service.machine.sh(f"cat {INBOX}/a.pdf.md")


def test_two_instances_side_by_side(service: Service) -> None:
    for name in ("post", "rest"):
        config = CONFIG.replace(INBOX, f"/srv/{name}").replace(STATE, f"/var/lib/inboxd-{name}")
        service.machine.write(f"/etc/inboxd/{name}.toml", config)
        service.machine.sh(f"install -d -o inboxd /srv/{name}")
        service.machine.run(INBOXD, "install-service", "--instance", name, "--program", INBOXD, "--start")
    for name in ("post", "rest"):
        assert service.machine.run("systemctl", "is-active", f"inboxd@{name}").stdout.strip() == "active"
        service.machine.run(INBOXD, "uninstall-service", "--instance", name)
    assert service.sql("SELECT count(*) FROM runs") == []
