"""Log-probabilities that stay in vLLM's worker until a page is done; vLLM's own code stands in, its outputs do not."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from inboxd.engines.vllm_worker import KEPT, InboxdWorker


@dataclass
class Output:
    """A step's output as vLLM's `ModelRunnerOutput` has it: a row for each page."""

    req_ids: list[str]
    sampled_token_ids: list[list[int]]
    logprobs: Any


class Later:
    """vLLM's `AsyncModelRunnerOutput`: what the GPU is still working out."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def get_output(self) -> Output:
        return self._output


class Worker(InboxdWorker):
    def __init__(self, *, later: bool) -> None:
        self.model_runner = SimpleNamespace(sample_tokens=lambda output: Later(output) if later else output)
        self.inboxd_keep_logprobs()

    def step(self, **rows: tuple[list[int], float]) -> Output:
        """One step of the model, with tokens and log-probability for each page."""
        names = [name.replace("_", "-") for name in rows]
        logprobs = SimpleNamespace(logprobs=np.array([[logprob] for _, logprob in rows.values()], np.float32))
        output = Output(names, [tokens for tokens, _ in rows.values()], logprobs)
        assert self.passed(output) is output
        return output

    def passed(self, output: Output | None) -> Output | None:
        """A step's output after it has gone through vLLM's worker."""
        result: Output | Later | None = self.model_runner.sample_tokens(output)
        return result.get_output() if isinstance(result, Later) else result


@pytest.fixture(params=(False, True), ids=("at once", "later"))
def worker(request: pytest.FixtureRequest) -> Worker:
    return Worker(later=request.param)


def test_they_are_summed_by_page_and_sent_nowhere(worker: Worker) -> None:
    outputs = [
        worker.step(page_1_ab=([5], -0.5), page_12_cd=([6], -1.0)),
        worker.step(page_12_cd=([7], -2.0), page_1_ab=([8], -0.25)),
    ]
    assert [output.logprobs for output in outputs] == [None, None]
    assert worker.inboxd_logprob("page-1", 2) == -0.75
    assert worker.inboxd_logprob("page-12", 2) == -3.0


def test_a_step_that_read_more_of_the_prompt_counts_for_nothing(worker: Worker) -> None:
    worker.step(page_1=([], -9.0))
    worker.step(page_1=([5], -0.5))
    assert worker.inboxd_logprob("page-1", 1) == -0.5


def test_a_token_beyond_the_end_counts_for_nothing(worker: Worker) -> None:
    for logprob in (-0.5, -0.25, -9.0):
        worker.step(page_1=([5], logprob))
    assert worker.inboxd_logprob("page-1", 2) == -0.75


def test_what_was_told_is_forgotten(worker: Worker) -> None:
    worker.step(page_1=([5], -0.5))
    assert worker.inboxd_logprob("page-1", 1) == -0.5
    assert worker.inboxd_logprob("page-1", 1) is None
    assert worker.inboxd_logprob("page-2", 1) is None


def test_pages_given_up_are_forgotten_and_none_that_is_being_read(worker: Worker) -> None:
    for number in range(2 * KEPT):
        worker.step(page_long=([5], -1.0), **{f"page_{number}": ([5], -1.0)})
    assert len(worker.inboxd_kept) == KEPT
    assert worker.inboxd_logprob("page-long", 2 * KEPT) == -2.0 * KEPT
    assert worker.inboxd_logprob("page-0", 1) is None


def test_a_step_without_any_is_passed_on(worker: Worker) -> None:
    without = Output(["page-1"], [[5]], None)
    assert worker.passed(without) is without
    assert worker.passed(None) is None
    assert worker.inboxd_kept == {}
