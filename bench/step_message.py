"""What log-probabilities cost in the message that vLLM's engine core sends to its front end after each step.

    python bench/step_message.py        in the environment that has vLLM; no GPU and no model needed

Packs and unpacks with vLLM's own code what a step with 256 pages says, with and without the log-probability of each
token. Prints milliseconds a step: the core makes and packs the message, the front end unpacks it.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.outputs import LogprobsLists
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

PAGES = 256
STEPS = 200


def main() -> None:
    ids = np.arange(PAGES, dtype=np.int32)
    every = LogprobsLists(ids[:, None], np.full((PAGES, 1), -0.5, np.float32), ids)
    encoder, decoder = MsgpackEncoder(), MsgpackDecoder(EngineCoreOutputs)
    rows: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for step in range(2 * STEPS):  # by turns, so that what else the machine does falls on both
        sent = bool(step % 2)
        began = time.perf_counter()
        outputs = [
            EngineCoreOutput(f"page-{row}-0123abcd", [row], every.slice_request(row, 1) if sent else None)
            for row in range(PAGES)
        ]
        message = encoder.encode(EngineCoreOutputs(outputs=outputs))
        packed = time.perf_counter()
        decoder.decode(message)
        rows[sent].append((packed - began, time.perf_counter() - packed))
    for sent, times in rows.items():
        core, front = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
        print(f"{'with' if sent else 'without'} log-probabilities: core {core:.2f} ms, front end {front:.2f} ms a step")


if __name__ == "__main__":
    main()
