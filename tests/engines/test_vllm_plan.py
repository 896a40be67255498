"""What the vLLM engine decides before vLLM is imported: profile, model, window, and whether it can start at all."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inboxd import profiles
from inboxd.config import Engine, Settings
from inboxd.engines import vllm_model, vllm_plan, vllm_start
from inboxd.engines.vllm_plan import Plan, Way, arguments
from inboxd.errors import ConfigError, EngineUnusable
from inboxd.gpus import Detected, Gpu, Holder, groups
from inboxd.profiles import GIB, Profiles

TINY = Path(__file__).parents[1] / "tiny_lightonocr"


def gpu(
    name: str = "NVIDIA A10", total: float = 22.5, free: float = 22, cc: tuple[int, int] = (8, 6), index: int = 0
) -> Gpu:
    return Gpu(index, f"GPU-{index}", name, cc, int(total * GIB), int(free * GIB), reserved=0)


@pytest.fixture(scope="module")
def rows() -> Profiles:
    return profiles.load()


@pytest.fixture(autouse=True)
def _not_the_cpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_plan, "cpu_build", lambda: False)


def settings(tmp_path: Path, **engine: object) -> Settings:
    return Settings(state=str(tmp_path), engine=Engine(name="vllm", model=str(TINY), **engine))  # type: ignore[arg-type]


# ---------------------------------------------------------------- GPUs


@pytest.mark.parametrize(
    ("name", "gib", "capability", "profile", "dtype"),
    [
        ("Tesla T4", 15, (7, 5), "t4", "float16"),
        ("NVIDIA L4", 22.5, (8, 9), "l4", "bfloat16"),
        ("NVIDIA A10", 22.5, (8, 6), "a10", "bfloat16"),
        ("NVIDIA A10G", 22.5, (8, 6), "a10g", "bfloat16"),
        ("NVIDIA GeForce RTX 3090", 24, (8, 6), "rtx-3090", "bfloat16"),
        ("NVIDIA GeForce RTX 4090", 24, (8, 9), "rtx-4090", "bfloat16"),
        ("NVIDIA GeForce RTX 5090", 31.8, (12, 0), "rtx-5090", "bfloat16"),
        ("NVIDIA L40S", 45, (8, 9), "l40s", "bfloat16"),
        ("NVIDIA A100-SXM4-40GB", 40, (8, 0), "a100-40", "bfloat16"),
        ("NVIDIA A100-SXM4-80GB", 80, (8, 0), "a100-80", "bfloat16"),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", 39.5, (8, 0), "a100-40", "bfloat16"),
        ("NVIDIA A100-SXM4-40GB MIG 2g.10gb", 9.5, (8, 0), "unknown-12g", "bfloat16"),
        ("NVIDIA H100 80GB HBM3", 79.6, (9, 0), "h100", "bfloat16"),
        ("NVIDIA H200", 140.4, (9, 0), "h200", "bfloat16"),
        ("NVIDIA B200", 178, (10, 0), "b200", "bfloat16"),
        ("NVIDIA RTX A6000", 47.5, (8, 6), "unknown-40g", "bfloat16"),
        ("NVIDIA GeForce RTX 2080 Ti", 11, (7, 5), "unknown-12g", "float16"),
    ],
)
def test_cards_are_told_apart(
    rows: Profiles, name: str, gib: float, capability: tuple[int, int], profile: str, dtype: str
) -> None:
    row = rows.gpu_for(gpu(name, gib, gib, capability))
    assert (row.name, row.dtype) == (profile, dtype)


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        (gpu("Tesla V100-SXM2-32GB", 32, 32, (7, 0)), "no kernels"),
        (gpu("Tesla P100-PCIE-16GB", 16, 16, (6, 0)), "compute capability 6.0: vLLM needs 7.5"),
        (gpu("NVIDIA GeForce GTX 1650", 4, 4, (7, 5)), "too little memory"),
    ],
)
def test_cards_that_cannot_run_it_are_refused_with_the_reason(rows: Profiles, card: Gpu, reason: str) -> None:
    with pytest.raises(EngineUnusable, match=reason):
        rows.gpu_for(card)


def test_every_card_gets_a_window_that_its_memory_holds(rows: Profiles) -> None:
    model = rows.default_model
    shape = rows.shapes[model.shape]
    for row in rows.gpus:
        if row.refused or row.name == "cpu":
            continue
        card = gpu(row.name, row.memory_gib, row.memory_gib)
        found = vllm_plan.sizes(model, row, shape, (card,))
        assert found.kv_tokens is not None and found.kv_tokens > model.context, row.name
        assert 1 <= found.window <= row.seats
        assert found.batch_pages >= 1


def test_one_engine_for_each_card(tmp_path: Path) -> None:
    found = Detected((gpu(index=0), gpu(index=1)))
    plans = vllm_plan.plans(settings(tmp_path), found)
    assert [[card.index for card in plan.gpus] for plan in plans] == [[0], [1]]
    assert len({plan.log for plan in plans}) == 2


def test_the_models_lie_in_the_state_folder_wherever_the_logs_go(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    vllm_model.fetched(tmp_path / "models", "some/model").symlink_to(TINY)
    wanted = Settings(state=str(tmp_path), engine=Engine(model="some/model", model_profile="generic"))
    for logs, lies in ((None, tmp_path), (tmp_path / "aside", tmp_path / "aside")):
        (plan,) = vllm_plan.plans(wanted, Detected((gpu(),)), logs)
        assert plan.folder.parent == tmp_path / "models"
        assert plan.log.parent == lies


def test_tensor_parallel_over_more_cards_than_there_are_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tensor_parallel = 2, but this machine has 1 usable GPU\n"):
        vllm_plan.plans(settings(tmp_path, tensor_parallel=2), Detected((gpu(),)))


def test_tensor_parallel_that_leaves_a_card_over_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not divide this machine's 3 GPUs"):
        groups((gpu(index=0), gpu(index=1), gpu(index=2)), 2)


def test_no_card_is_no_engine(tmp_path: Path) -> None:
    with pytest.raises(EngineUnusable, match="needs a GPU: no NVIDIA driver"):
        vllm_plan.plans(settings(tmp_path), Detected((), trouble=("no NVIDIA driver answers",)))


def test_a_profile_can_be_named_and_must_exist(tmp_path: Path) -> None:
    (plan,) = vllm_plan.plans(settings(tmp_path, gpu_profile="l4"), Detected((gpu("NVIDIA H200", 140, 139, (9, 0)),)))
    assert plan.profile.name == "l4"
    with pytest.raises(ConfigError, match="'nonsense' is no GPU profile"):
        vllm_plan.plans(settings(tmp_path, gpu_profile="nonsense"), Detected((gpu(),)))


# ---------------------------------------------------------------- what is passed on


def _plan(tmp_path: Path, *cards: Gpu) -> Plan:
    return vllm_plan.plans(settings(tmp_path), Detected(cards or (gpu(),)))[0]


def test_memory_is_claimed_from_what_is_free_now(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    assert arguments(plan, (gpu(free=22.5),), Way.DECODER)["gpu_memory_utilization"] == plan.profile.memory_share
    half = arguments(plan, (gpu(free=11.25),), Way.DECODER)["gpu_memory_utilization"]
    assert half == pytest.approx(plan.profile.memory_share / 2, abs=0.001)


def test_vllm_gets_the_authors_flags(tmp_path: Path) -> None:
    chosen = arguments(_plan(tmp_path), (gpu(),), Way.DECODER)
    assert chosen["limit_mm_per_prompt"] == {"image": 1}
    assert chosen["mm_processor_cache_gb"] == 0
    assert not chosen["enable_prefix_caching"] and not chosen["enforce_eager"]
    assert chosen["max_model_len"] == 8192


def test_what_misreads_when_compiled_is_tried_with_less_compiled(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    assert plan.ways == (Way.DECODER, Way.NOTHING)
    towers = replace(plan, profile=msgspec.structs.replace(plan.profile, compile_vision=True))
    assert towers.ways == (Way.ALL, Way.DECODER, Way.NOTHING)
    assert replace(towers, shape=None).ways == (Way.DECODER, Way.NOTHING), "a model of other parts"
    assert not arguments(plan, (gpu(),), Way.ALL)["enforce_eager"]
    assert arguments(plan, (gpu(),), Way.NOTHING)["enforce_eager"]


def test_limits_follow_the_kv_cache_that_the_engine_found(tmp_path: Path) -> None:
    plan = _plan(tmp_path)
    assert plan.limits(kv_tokens=30_000).pages_in_flight == 10 + 2
    assert plan.limits(kv_tokens=10_000_000).pages_in_flight == plan.profile.seats * 9 // 8
    assert plan.limits().grid == 28 and plan.limits().longest_edge == 1540


# ---------------------------------------------------------------- the model's files


def test_a_folder_is_known_by_its_architecture(rows: Profiles, tmp_path: Path) -> None:
    row, folder = vllm_model.locate(str(TINY), None, rows, tmp_path)
    assert (row.name, folder) == ("lightonocr-2-1b", TINY)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps({"architectures": ["Qwen2_5_VLForConditionalGeneration"]}))
    row, _ = vllm_model.locate(str(other), None, rows, tmp_path)
    assert row.name == "generic" and row.prompt


def test_a_fetched_model_is_found_by_profile_and_by_id(rows: Profiles, tmp_path: Path) -> None:
    fetched = vllm_model.fetched(tmp_path, "lightonai/LightOnOCR-2-1B-bbox")
    fetched.mkdir()
    for wanted in ("lightonocr-2-1b-bbox", "lightonai/LightOnOCR-2-1B-bbox"):
        row, folder = vllm_model.locate(wanted, None, rows, tmp_path)
        assert (row.dialect, folder) == ("lightonocr-bbox", fetched)


def test_a_model_in_hugging_faces_cache_is_found(
    rows: Profiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "hub" / "models--lightonai--LightOnOCR-2-1B" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    assert vllm_model.locate(None, None, rows, tmp_path / "none")[1] == snapshot


@pytest.mark.parametrize(
    ("variable", "value", "hub"),
    [
        ("XDG_CACHE_HOME", "{home}/elsewhere", "elsewhere/huggingface/hub"),
        ("HF_HOME", "~/hf", "hf/hub"),
        ("HUGGINGFACE_HUB_CACHE", "{home}/old", "old"),
        ("HF_HUB_CACHE", "$HOME/new", "new"),
    ],
)
def test_the_cache_is_where_hugging_face_has_it(
    rows: Profiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, hub: str
) -> None:
    for name in ("XDG_CACHE_HOME", "HF_HOME", "HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, value.format(home=tmp_path))
    snapshot = tmp_path / hub / "models--lightonai--LightOnOCR-2-1B" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    assert vllm_model.locate(None, None, rows, tmp_path / "none")[1] == snapshot


def test_a_model_that_is_not_here_says_how_to_bring_it(
    rows: Profiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(EngineUnusable, match="inboxd fetch-model lightonocr-2-1b"):
        vllm_model.locate(None, None, rows, tmp_path)


def test_a_folder_that_is_closed_to_us_is_not_taken_for_empty(
    rows: Profiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models, hub = tmp_path / "state" / "models", tmp_path / "hub"
    really = Path.is_dir

    def closed(path: Path) -> bool:  # as to anybody but root
        if models in path.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return really(path)

    monkeypatch.setattr(Path, "is_dir", closed)
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    with pytest.raises(EngineUnusable, match=r"can't be seen: .*/state/models/lightonai.*: Permission denied"):
        vllm_model.locate(None, None, rows, models)
    snapshot = hub / "models--lightonai--LightOnOCR-2-1B" / "snapshots" / "c0ffee"
    snapshot.mkdir(parents=True)
    assert vllm_model.locate(None, None, rows, models)[1] == snapshot


@pytest.mark.parametrize("name", ["generic", "our-model"])
def test_a_profile_without_files_says_how_to_name_them(tmp_path: Path, name: str) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[model]]\nname = "our-model"\nlongest_edge = 1280\ngrid = 28\ntemperatures = [0.1]\nmax_tokens = 4096\n'
        'context = 8192\ntypical = 600\ndialect = "plain"\n'
    )
    rows = profiles.load(str(own))
    with pytest.raises(ConfigError, match="names no files") as refused:
        vllm_model.locate(name, None, rows, tmp_path)
    assert f"engine.model_profile = '{name}'" in refused.value.advice
    row, folder = vllm_model.locate(str(TINY), name, rows, tmp_path)  # as it advises
    assert (row.name, folder) == (name, TINY)


def test_a_name_that_means_nothing_is_a_wrong_setting(rows: Profiles, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no model profile, no folder") as refused:
        vllm_model.locate("lightonocr", None, rows, tmp_path)
    assert "lightonocr-2-1b" in refused.value.advice and "generic" not in refused.value.advice
    with pytest.raises(ConfigError, match="is no model profile"):
        vllm_model.locate(str(TINY), "nonsense", rows, tmp_path)


def test_a_whole_model_has_no_trouble() -> None:
    assert vllm_model.trouble(TINY) is None
    shape = vllm_model.shape(TINY)
    assert shape is not None and shape.weight_bytes() == pytest.approx(9.66e6, rel=0.1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: (folder / "tokenizer_config.json").unlink(), "tokenizer_config.json is missing"),
        (lambda folder: (folder / "model.safetensors").unlink(), "there are no weights"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 4), "cut short or damaged"),
        (lambda folder: _weights_headed(folder, []), "cut short or damaged"),
        (lambda folder: _weights_headed(folder, {"a": {"dtype": "F32"}}), "cut short or damaged"),
        (lambda folder: _weights_headed(folder, {"a": {"data_offsets": [0, "4"]}}), "cut short or damaged"),
        (lambda folder: (folder / "model-2.safetensors").mkdir(), "model-2.safetensors cannot be read: Is a directory"),
        (
            lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
            "lfs",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text(
                json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors"}})
            ),
            "model-00001-of-00002.safetensors is missing",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "mod'),
            "model.safetensors.index.json is cut short or damaged",
        ),
        (
            lambda folder: (folder / "model.safetensors.index.json").write_text("{}"),
            "model.safetensors.index.json is cut short or damaged",
        ),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, change: object, reason: str) -> None:
    for path in TINY.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model.safetensors").write_bytes((TINY / "model.safetensors").read_bytes())
    change(tmp_path)  # type: ignore[operator]
    assert reason in (vllm_model.trouble(tmp_path) or "")


def _weights_headed(folder: Path, header: object) -> None:
    told = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(told)) + told)


def test_weights_that_are_closed_to_us_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As root leaves them that fetched the model for itself."""
    really = Path.open

    def closed(path: Path, *how: str) -> object:  # as to anybody but root
        if path.suffix == ".safetensors":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return really(path, *how)

    monkeypatch.setattr(Path, "open", closed)
    assert vllm_model.trouble(TINY) == f"{TINY / 'model.safetensors'} cannot be read: Permission denied"


@pytest.mark.parametrize("sizes", ['{"vision_config": null}', '{"vision_config": [], "text_config": "none"}'])
def test_a_model_whose_sizes_mean_nothing_to_us_has_none(tmp_path: Path, sizes: str) -> None:
    (tmp_path / "config.json").write_text(sizes)
    assert vllm_model.shape(tmp_path) is None


def test_a_configuration_that_is_none_is_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(EngineUnusable, match=r"config\.json is damaged"):
        vllm_model.shape(tmp_path)


def test_a_folder_by_path_that_is_closed_to_us_is_not_taken_for_none(
    rows: Profiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "closed" / "model"
    really: Any = os.stat

    def closed(path: Any, **how: Any) -> Any:  # as to anybody but root
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return really(path, **how)

    monkeypatch.setattr(os, "stat", closed)
    with pytest.raises(EngineUnusable, match=r"can't be seen: .*/closed/model: Permission denied"):
        vllm_model.locate(str(folder), None, rows, tmp_path)


def test_a_snapshot_that_is_not_whole_does_not_hide_an_older_one_that_is(
    rows: Profiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that asks the hub for the configuration alone leaves a newer one with nothing else in it."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshots = tmp_path / "hub" / "models--lightonai--LightOnOCR-2-1B" / "snapshots"
    whole, newer = snapshots / "c0ffee", snapshots / "decaf"
    whole.mkdir(parents=True)
    for path in TINY.iterdir():
        (whole / path.name).symlink_to(path)
    newer.mkdir()
    (newer / "config.json").symlink_to(TINY / "config.json")
    os.utime(whole, (1, 1))
    assert vllm_model.locate(None, None, rows, tmp_path / "none")[1] == whole


# ---------------------------------------------------------------- why it does not start


def test_a_held_card_is_refused_with_how_much_and_by_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan(tmp_path)
    held = Gpu(0, "GPU-0", "NVIDIA A10", (8, 6), 22 * GIB, 2 * GIB, 0, holders=(Holder(1, "trainer", 19 * GIB),))
    monkeypatch.setattr("inboxd.gpus.memory", lambda _: held)
    monkeypatch.setattr(vllm_start, "FREEING_S", 0.0)
    with pytest.raises(EngineUnusable, match=r"2\.0 GiB free of 22\.0.*Held by trainer \(pid 1\) 19\.0 GiB"):
        asyncio.run(vllm_start.check(plan))


def test_a_lost_card_is_said_to_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inboxd.gpus.memory", lambda _: None)
    with pytest.raises(EngineUnusable, match="no longer answers"):
        asyncio.run(vllm_start.check(_plan(tmp_path)))


def test_a_version_that_is_known_to_loop_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_start, "version", lambda: "0.27.1")
    with pytest.raises(EngineUnusable, match="loop"):
        asyncio.run(vllm_start.check(_plan(tmp_path)))


def test_the_cause_is_taken_from_the_engines_own_log(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(
        "2026-11-30 ERROR [EngineCore] EngineCore failed to start.\nTraceback (most recent call last):\n"
        '  File "x.py", line 1, in load\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
        "2026-11-30 ERROR [MainProcess] giving up\nTraceback (most recent call last):\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert vllm_start.last_words(log) == "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    assert vllm_start.last_words(tmp_path / "none") is None


NO_COMPILER = (
    "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in "
    "torch._inductor.config.cpp.cxx: (None, 'g++')",
    "RuntimeError: Failed to find C compiler. Please specify via CC environment variable.",
    "subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/x/cuda_utils.c', '-O3', '-shared']' returned "
    "non-zero exit status 1.",
)


@pytest.mark.parametrize("words", NO_COMPILER)
def test_a_missing_compiler_is_named_and_what_to_install(tmp_path: Path, words: str) -> None:
    """As vLLM 0.32, Triton and gcc without Python.h say it; what vLLM says of it afterwards is no cause."""
    plan = _plan(tmp_path)
    plan.log.write_text(
        f"{words}\n\nRuntimeError: Worker failed with error '{words}', please check the stack trace above for it\n"
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above).\n"
    )
    told = vllm_start.explained("EngineDeadError", plan)
    assert words.partition(": ")[2] in told.what
    assert "apt install g++ python3-dev" in told.advice and str(plan.log) in told.advice


def test_out_of_memory_names_who_holds_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = _plan(tmp_path)
    plan.log.write_text("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")
    held = Gpu(0, "GPU-0", "NVIDIA A10", (8, 6), 22 * GIB, 2 * GIB, 0, holders=(Holder(7, "trainer", 19 * GIB),))
    monkeypatch.setattr("inboxd.gpus.memory", lambda _: held)
    told = vllm_start.explained("RuntimeError: Engine core initialization failed.", plan)
    assert "trainer (pid 7) 19.0 GiB" in told.what and "out of memory" in told.what
    assert str(plan.log) in told.advice


# ---------------------------------------------------------------- profiles of one's own


def test_own_rows_go_before_the_shipped_ones(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[[gpu]]\nname = "mine"\nmatch = "A10"\nmemory_gib = 0\nseats = 3\nsource = "me"\n'
        '[[model]]\nname = "mine"\nlongest_edge = 1000\ngrid = 28\ntemperatures = [0.0]\nmax_tokens = 10\n'
        'context = 2048\ntypical = 5\ndialect = "plain"\n'
    )
    rows = profiles.load(str(own))
    assert rows.gpu_for(gpu()).seats == 3
    assert rows.default_model.name == "lightonocr-2-1b"
    mine = rows.model("mine")
    assert mine is not None and mine.deterministic


def test_a_pattern_that_is_none_is_refused_by_row(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[gpu]]\nname = "ours"\nmatch = "*4090"\nmemory_gib = 22\nsource = "measured"\n')
    with pytest.raises(ConfigError, match=r"own.toml: .*ours.*'\*4090'.*nothing to repeat"):
        profiles.load(str(own))


def test_an_unknown_field_is_refused_by_name(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[gpu]]\nname = "mine"\nmemory_gib = 0\nseets = 3\nsource = "me"\n')
    with pytest.raises(ConfigError, match="seets"):
        profiles.load(str(own))


def test_a_later_attempt_is_sampled_at_the_next_temperature(rows: Profiles) -> None:
    assert [rows.default_model.temperature(attempt) for attempt in (1, 2, 3, 4)] == [0.2, 0.2, 0.4, 0.4]
    assert not rows.default_model.deterministic


def test_only_models_that_take_instructions_have_a_prompt(rows: Profiles) -> None:
    for row in rows.models:
        if row.languages:
            assert row.prompt
        if row.name.startswith(("lightonocr-1", "lightonocr-2")):
            assert not row.prompt
