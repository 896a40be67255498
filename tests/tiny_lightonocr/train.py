"""Trains the tiny LightOnOCR on synthetic print, and reads fresh pages with it.

python train.py --seconds 900 --out FOLDER      trains on a GPU, with one process a core drawing pages
python train.py --smoke --out FOLDER            a few steps on a CPU: tries the code
python train.py --check FOLDER                  character error rate of a checkpoint on fresh pages
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from checkpoint import DEVIATION, END, IMAGE, MEAN, PAD, TEXT, VISION, VOCABULARY, prompt, tokenizer, write
from printed import LEVELS, Level, page
from safetensors.torch import load_file, save_file
from transformers import LightOnOcrConfig, LightOnOcrForConditionalGeneration

BATCH = (192, 128, 96, 40)  # pages a step, by level
BEGINS = (0.0, 0.14, 0.30, 0.52)  # share of the time at which a level joins in
TOKENS = tokenizer()


def build() -> LightOnOcrForConditionalGeneration:
    """The model, with random weights."""
    config = LightOnOcrConfig(
        vision_config=VISION, text_config=TEXT, image_token_id=IMAGE, spatial_merge_size=2, tie_word_embeddings=True
    )
    config._attn_implementation = "sdpa"
    return LightOnOcrForConditionalGeneration(config)


# ---------------------------------------------------------------- the model over a batch of pages of one size


def encode(model: LightOnOcrForConditionalGeneration, pages: torch.Tensor) -> torch.Tensor:
    """Image tokens of pages (uint8, batch × height × width): one vector each 28 × 28 pixels."""
    tower, projection = model.model.vision_encoder, model.model.vision_projection
    mean, deviation = (torch.tensor(numbers, device=pages.device).view(1, 3, 1, 1) for numbers in (MEAN, DEVIATION))
    patches = tower.patch_conv((pages[:, None].float() / 255 - mean) / deviation)
    count, width, rows, columns = patches.shape
    x = tower.ln_pre(patches.flatten(2).transpose(1, 2))
    where = torch.cartesian_prod(*(torch.arange(n, device=pages.device) for n in (rows, columns)))
    turned = tower.patch_positional_embedding(x, where)
    for block in tower.transformer.layers:
        out = block(x, attention_mask=None, position_embeddings=turned)
        x = out[0] if isinstance(out, tuple) else out
    x = projection.norm(x).transpose(1, 2).reshape(count, width, rows, columns)
    merged = projection.patch_merger.merging_layer(F.unfold(x, kernel_size=2, stride=2).transpose(1, 2))
    return projection.linear_2(projection.act(projection.linear_1(merged)))


def embed(model: LightOnOcrForConditionalGeneration, pages: torch.Tensor, answers: torch.Tensor | None) -> torch.Tensor:
    """The prompt round the image, and the answer behind it, as vectors."""
    image = encode(model, pages)
    look_up = model.model.language_model.embed_tokens
    before, after = (
        look_up(torch.tensor(ids, device=pages.device)).expand(len(pages), -1, -1) for ids in prompt(TOKENS)
    )
    parts = [before, image.to(before.dtype), after]
    return torch.cat(parts if answers is None else [*parts, look_up(answers)], dim=1)


def loss(model: LightOnOcrForConditionalGeneration, pages: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """Cross entropy of the answers, up to their end."""
    hidden = model.model.language_model(inputs_embeds=embed(model, pages, answers), use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[:, -answers.shape[1] - 1 : -1]).float()
    wanted = answers.masked_fill(answers == PAD, -100)
    return F.cross_entropy(logits.reshape(-1, VOCABULARY), wanted.reshape(-1), ignore_index=-100)


@torch.no_grad()
def read(model: LightOnOcrForConditionalGeneration, pages: torch.Tensor, most: int) -> list[str]:
    """Greedy reading."""
    decoder, vectors, past = model.model.language_model, embed(model, pages, None), None
    written = torch.full((len(pages), 0), PAD, device=pages.device)
    done = torch.zeros(len(pages), dtype=torch.bool, device=pages.device)
    while not done.all() and written.shape[1] < most:
        out = decoder(inputs_embeds=vectors, past_key_values=past, use_cache=True)
        token = model.lm_head(out.last_hidden_state[:, -1]).argmax(-1).masked_fill(done, PAD)
        done |= token == END
        written = torch.cat([written, token[:, None]], dim=1)
        past, vectors = out.past_key_values, decoder.embed_tokens(token[:, None])
    return [TOKENS.decode([t for t in row if t not in (PAD, END)]) for row in written.tolist()]


# ---------------------------------------------------------------- pages


class Pages(torch.utils.data.IterableDataset[tuple[torch.Tensor, torch.Tensor]]):
    """Endless batches of one level."""

    def __init__(self, level: Level, batch: int, seed: int) -> None:
        self.level, self.batch, self.seed = level, batch, seed

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        worker = torch.utils.data.get_worker_info()
        dice = random.Random(self.seed * 1000 + (worker.id if worker else 0))
        while True:
            yield drawn(dice, self.level, self.batch)[:2]


def drawn(dice: random.Random, level: Level, count: int) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Pages, their truths as padded tokens, and their truths."""
    pairs = [page(dice, level) for _ in range(count)]
    answers = torch.full((count, level.tokens), PAD)
    for row, (_, truth) in zip(answers, pairs, strict=True):
        ids = [*TOKENS.encode(truth).ids, END]
        row[: len(ids)] = torch.tensor(ids)
    return torch.from_numpy(np.stack([pixels for pixels, _ in pairs])), answers, [truth for _, truth in pairs]


# ---------------------------------------------------------------- training


def train(seconds: float, rate: float, out: Path, *, smoke: bool) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = build().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98), weight_decay=0.02)
    workers = 0 if smoke else max(1, (os.cpu_count() or 2) // len(LEVELS))
    batches = [2] * len(LEVELS) if smoke else BATCH
    sources = [
        iter(torch.utils.data.DataLoader(Pages(level, batch, seed), batch_size=None, num_workers=workers))
        for seed, (level, batch) in enumerate(zip(LEVELS, batches, strict=True))
    ]
    dice, began, step = random.Random(0), time.monotonic(), 0
    while (share := (time.monotonic() - began) / seconds) < 1 and not (smoke and step == 8):
        joined = step % len(LEVELS) + 1 if smoke else sum(share >= begin for begin in BEGINS)
        level = joined - 1 if dice.random() < 0.5 else dice.randrange(joined)
        pages, answers = (tensor.to(device, non_blocking=True) for tensor in next(sources[level]))
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 500) * (0.985 * (1 + math.cos(math.pi * share)) / 2 + 0.015)
        with torch.autocast(device, dtype=torch.bfloat16):
            value = loss(model, pages, answers)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if smoke or step % 500 == 0:
            print(
                f"step {step} level {level} loss {value.item():.3f} after {time.monotonic() - began:.0f} s", flush=True
            )
    write(out)
    weights = {
        name: weight.detach().to(torch.bfloat16).cpu().contiguous()
        for name, weight in model.state_dict().items()
        if name != "lm_head.weight"  # tied to the token table
    }
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    check(out, pages=2 if smoke else 24)


def check(folder: Path, pages: int = 8) -> None:
    """Print the character error rate on fresh pages, by level."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build()
    missing, unknown = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    assert not unknown and set(missing) <= {"lm_head.weight"}, (missing, unknown)
    model.tie_weights()
    model.to(device, torch.float32).eval()
    for level in LEVELS[:3]:
        images, _, truths = drawn(random.Random(11), level, pages)
        texts = read(model, images.to(device), level.tokens)
        wrong = sum(map(edits, texts, truths)) / sum(map(len, truths))
        print(f"{level.height} × {level.width}: character error rate {wrong:.4f}, for example {texts[0][:60]!r}")


def edits(text: str, truth: str) -> int:
    """Edits that make `truth` of `text`."""
    row = list(range(len(truth) + 1))
    for i, character in enumerate(text, 1):
        before, row[0] = row[0], i
        for j, wanted in enumerate(truth, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (character != wanted))
    return row[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--rate", type=float, default=1.5e-3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--check", type=Path)
    options = parser.parse_args()
    if options.check:
        check(options.check)
    else:
        train(options.seconds, options.rate, options.out, smoke=options.smoke)
