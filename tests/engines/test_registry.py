"""Engines are found by name, imported on use only, and what is missing is named with its remedy."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from inboxd import gpus
from inboxd.config import Engine, Settings
from inboxd.engines import registry
from inboxd.engines.null import NullEngine
from inboxd.errors import ConfigError, EngineUnusable

H200 = gpus.Gpu(0, "GPU-1", "NVIDIA H200", (9, 0), total=150 << 30, free=149 << 30, reserved=1 << 30)


def settings(name: str) -> Settings:
    return Settings(engine=Engine(name=name))


def detected(monkeypatch: pytest.MonkeyPatch, found: gpus.Detected, *, vllm: bool) -> registry.Choice:
    installed = registry.find_spec
    monkeypatch.setattr(gpus, "detect", lambda: found)
    monkeypatch.setattr(
        registry, "find_spec", lambda name: (object() if vllm else None) if name == "vllm" else installed(name)
    )
    return registry.choose(settings("auto"))


def test_auto_takes_vllm_where_a_gpu_and_the_package_are(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = detected(monkeypatch, gpus.Detected((H200,)), vllm=True)
    assert choice.name == "vllm" and "NVIDIA H200" in choice.why


def test_auto_says_that_only_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = detected(monkeypatch, gpus.Detected((H200,)), vllm=False)
    assert choice.name == "cpu" and "NVIDIA H200" in choice.why and "inboxd[vllm]" in choice.why


def test_auto_without_a_gpu_is_the_cpu_and_says_what_nvml_said(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = "no NVIDIA driver answers: NVML Shared Library Not Found"
    assert detected(monkeypatch, gpus.Detected((), trouble=(trouble,)), vllm=True) == registry.Choice("cpu", trouble)


def test_a_named_engine_is_taken_at_its_word() -> None:
    assert registry.choose(settings("null")).name == "null"
    assert isinstance(registry.create(settings("null")), NullEngine)


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="tesserakt") as refusal:
        registry.create(settings("tesserakt"))
    assert "auto, null, cpu, vllm" in refusal.value.advice


def test_a_missing_package_is_named_with_the_line_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    with pytest.raises(EngineUnusable, match="vllm and torch") as error:
        registry.create(settings("vllm"))
    assert "pip install 'inboxd[vllm]'" in error.value.advice


def test_another_package_adds_an_engine_but_cannot_replace_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("mine", "inboxd.engines.null:create", registry.GROUP),
        EntryPoint("cpu", "inboxd.engines.null:create", registry.GROUP),
        EntryPoint("broken", "no_such_module:create", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert registry.names() == ("null", "cpu", "vllm", "broken", "mine")
    assert isinstance(registry.create(settings("mine")), NullEngine)
    assert not isinstance(registry.create(settings("cpu")), NullEngine)
    with pytest.raises(EngineUnusable, match="no_such_module"):
        registry.create(settings("broken"))


def test_naming_and_choosing_engines_imports_none_of_them() -> None:
    program = (
        "import sys; from inboxd.config import Settings; from inboxd.engines import registry;"
        "registry.names(); registry.choose(Settings());"
        "print(sorted({'cv2', 'onnxruntime', 'rapidocr', 'torch', 'vllm', 'numpy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
