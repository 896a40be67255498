"""Fetching a model, from a stand-in for the hub that can break off, lie and refuse."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from inboxd import hub
from inboxd.cli import main

WEIGHTS = (8).to_bytes(8, "little") + b"{}      " + b""
LARGE = bytes(range(256)) * 12_000  # three chunks


class Hub:
    """What the stand-in serves, and how it misbehaves."""

    def __init__(self) -> None:
        self.files = {
            "config.json": b"{}",
            "tokenizer_config.json": b"{}",
            "preprocessor_config.json": b"{}",
            "model.safetensors": WEIGHTS,
            "README.md": b"not needed",
            "extra/large.json": LARGE,
        }
        self.break_after: int | None = None  # bytes of a body
        self.lie = False
        self.ranges = True
        self.asked: list[tuple[str, str | None]] = []


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, _ = self.path.partition("?")
            state.asked.append((path, self.headers.get("Range")))
            if path == "/api/models/some/model/revision/main":
                self._send(200, json.dumps({"sha": "c0ffee", "siblings": [_told(*f) for f in state.files.items()]}))
            elif path.startswith("/some/model/resolve/c0ffee/"):
                self._file(state.files[path.removeprefix("/some/model/resolve/c0ffee/")])
            else:
                self._send(404, "no")

        def _file(self, body: bytes) -> None:
            start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if state.ranges else 0
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            body = (b"?" * len(body) if state.lie else body)[start:]
            if state.break_after is not None and len(body) > state.break_after:
                self.wfile.write(body[: state.break_after])
                self.close_connection = True
            else:
                self.wfile.write(body)

        def _send(self, code: int, body: str) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield state
        server.shutdown()
        thread.join()


def _told(name: str, body: bytes) -> dict[str, object]:
    told: dict[str, object] = {"rfilename": name, "size": len(body)}
    if name.endswith(".safetensors"):
        return {**told, "lfs": {"sha256": hashlib.sha256(body).hexdigest()}}
    return {**told, "blobId": hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()}


def test_it_brings_what_the_engine_needs_and_nothing_else(remote: Hub, tmp_path: Path) -> None:
    progress: list[int] = []
    found = hub.look("some/model")
    hub.bring(found, tmp_path, progress.append)
    assert (tmp_path / "extra" / "large.json").read_bytes() == LARGE
    assert not (tmp_path / "README.md").exists()
    assert sum(progress) == found.size
    assert not list(tmp_path.rglob("*.part"))


def test_whole_files_are_not_fetched_again(remote: Hub, tmp_path: Path) -> None:
    hub.bring(hub.look("some/model"), tmp_path, lambda _: None)
    remote.asked.clear()
    hub.bring(hub.look("some/model"), tmp_path, lambda _: None)
    assert [path for path, _ in remote.asked] == ["/api/models/some/model/revision/main"]


def test_a_download_that_broke_off_goes_on_where_it_stopped(remote: Hub, tmp_path: Path) -> None:
    remote.break_after = 2_000_000
    hub.bring(hub.look("some/model"), tmp_path, lambda _: None)  # asks again by itself while bytes come
    assert (tmp_path / "extra" / "large.json").read_bytes() == LARGE
    assert ("/some/model/resolve/c0ffee/extra/large.json", "bytes=2000000-") in remote.asked


def test_a_server_that_knows_no_ranges_sends_all_again(remote: Hub, tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "large.json.part").write_bytes(LARGE[:1000])
    remote.ranges = False
    progress: list[int] = []
    found = hub.look("some/model")
    hub.bring(found, tmp_path, progress.append)
    assert (tmp_path / "extra" / "large.json").read_bytes() == LARGE
    assert sum(progress) == found.size


def test_a_damaged_file_is_never_left_in_place(remote: Hub, tmp_path: Path) -> None:
    remote.lie = True
    with pytest.raises(hub.HubError, match="arrived damaged"):
        hub.bring(hub.look("some/model"), tmp_path, lambda _: None)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_an_unknown_repository_is_said_in_words(remote: Hub) -> None:
    with pytest.raises(hub.HubError, match="has no some/other for you"):
        hub.look("some/other")


def test_a_hub_out_of_reach_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(hub.HubError, match="does not answer"):
        hub.look("some/model")


def test_a_file_outside_the_folder_is_refused(remote: Hub) -> None:
    remote.files["../evil.json"] = b"x"
    with pytest.raises(hub.HubError, match="outside its folder"):
        hub.look("some/model")


def test_the_verb_fetches_and_verifies(remote: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch-model", "some/model", "--to", str(tmp_path / "model")]) == 0
    assert "is whole" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == WEIGHTS


def test_a_folder_that_cannot_take_it_is_said_in_words(
    remote: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a file").write_bytes(b"")
    assert main(["fetch-model", "some/model", "--to", str(tmp_path / "a file" / "model")]) == 1
    assert "Not a directory" in capsys.readouterr().err
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "large.json.part").symlink_to("/dev/full")
    assert main(["fetch-model", "some/model", "--to", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"cannot write in {tmp_path}: No space left on device" in said
    assert "--to" in said


def test_the_verb_knows_what_is_no_model(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["fetch-model", "nonsense", "--to", str(tmp_path)]) == 64
    assert "lightonocr-2-1b" in capsys.readouterr().err
