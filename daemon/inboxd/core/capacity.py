"""Arithmetic of a vision-language model on a card: image tokens, KV bytes, the window of pages, expected pages/s."""

from __future__ import annotations

from dataclasses import dataclass

ARITHMETIC_SHARE = 0.45
"""Share of a card's peak matrix rate that encoding and prefill are expected to reach."""

BANDWIDTH_SHARE = 0.60
"""Share of a card's peak memory bandwidth that decoding is expected to reach."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a model: a vision tower over square patches, merged `merge` × `merge`, in front of a decoder."""

    patch: int
    merge: int
    vision_layers: int
    vision_hidden: int
    vision_mlp: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int

    @property
    def grid(self) -> int:
        """Pixels along one side of an image token."""
        return self.patch * self.merge

    @property
    def vision_weights(self) -> int:
        """Parameters that every patch passes through: four attention matrices and a gated MLP a layer."""
        return self.vision_layers * (4 * self.vision_hidden**2 + 3 * self.vision_hidden * self.vision_mlp)

    @property
    def decoder_weights(self) -> int:
        """Parameters that every token passes through, the vocabulary left out."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.mlp)

    @property
    def vocabulary_weights(self) -> int:
        """Parameters of the token table, which is also the output layer."""
        return self.vocab * self.hidden

    def weight_bytes(self, width: int = 2) -> int:
        """Bytes of all weights at `width` bytes each, the projector between tower and decoder left out."""
        return width * (self.vision_weights + self.decoder_weights + self.vocabulary_weights)


@dataclass(frozen=True, slots=True)
class Card:
    """Peak figures of a GPU, as its vendor gives them for dense matrices of 16-bit floats."""

    tflops: float
    tbps: float  # memory bandwidth, terabytes a second


@dataclass(frozen=True, slots=True)
class Expected:
    """Seconds of one page in each phase when many are in flight, and the pages/s that follow."""

    encode_s: float
    prefill_s: float
    decode_s: float

    @property
    def pages_s(self) -> float:
        return 1 / (self.encode_s + self.prefill_s + self.decode_s)


def on_grid(width: int, height: int, longest_edge: int, grid: int) -> tuple[int, int]:
    """Size in pixels of a page scaled so that its longest edge is `longest_edge`, then padded to the grid."""
    scale = longest_edge / max(width, height)
    return _padded(width * scale, grid), _padded(height * scale, grid)


def _padded(side: float, grid: int) -> int:
    return -(-max(1, round(side)) // grid) * grid


def image_tokens(width: int, height: int, grid: int) -> int:
    """Tokens that an image of that many pixels costs."""
    return -(-width // grid) * -(-height // grid)


def kv_bytes(shape: Shape, width: float = 2) -> float:
    """Bytes of KV cache that one token holds, at `width` bytes a number (2: 16-bit, 1: fp8)."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * width


def kv_tokens(free: int, share: float, spent: int, bytes_a_token: float) -> int:
    """Tokens of KV cache when the engine takes `share` of the `free` bytes, `spent` of which go elsewhere."""
    return max(0, int((free * share - spent) / bytes_a_token))


def memory_fraction(total: int, free: int, share: float) -> float:
    """Fraction of the *whole* card to claim so that only `share` of what is free now gets used."""
    return int(1000 * free * share / total) / 1000


def window(capacity: int, prompt_tokens: int, output_tokens: int, seats: int) -> int:
    """Pages in flight: as many as the KV cache of `capacity` tokens holds, at most one a seat, at least one."""
    return max(1, min(seats, capacity // (prompt_tokens + output_tokens)))


def micro_batch(batched_tokens: int, page_tokens: int) -> int:
    """Pages that the engine encodes in one step: its token budget is the image encoder's budget too."""
    return max(1, batched_tokens // page_tokens)


def encode_flop(shape: Shape, tokens: int) -> float:
    """Floating-point operations of the vision tower over one image of that many tokens."""
    patches = tokens * shape.merge**2
    return 2 * patches * shape.vision_weights + 4 * patches**2 * shape.vision_hidden * shape.vision_layers


def prefill_flop(shape: Shape, tokens: int) -> float:
    """Floating-point operations of the decoder over a prompt of that many tokens, causal attention included."""
    return 2 * tokens * shape.decoder_weights + 2 * tokens**2 * shape.heads * shape.head_dim * shape.layers


def decode_bytes(shape: Shape, prompt: int, output: int, batch: int, kv_width: float = 2) -> float:
    """Bytes read from the card's memory to write `output` tokens of one page among `batch` in flight."""
    read_back = kv_bytes(shape, kv_width) * (prompt + output / 2)
    weights = 2 * (shape.decoder_weights + shape.vocabulary_weights) / batch
    return output * (read_back + weights)


def expected(
    shape: Shape,
    card: Card,
    prompt: int,
    output: int,
    batch: int,
    *,
    kv_width: float = 2,
    arithmetic: float = ARITHMETIC_SHARE,
    bandwidth: float = BANDWIDTH_SHARE,
) -> Expected:
    """Roofline of one page: `prompt` tokens in, `output` out, phases added up, none overlapped.

    With `arithmetic` and `bandwidth` at 1 it is the ceiling that no schedule of these phases passes.
    """
    rate = card.tflops * 1e12 * arithmetic
    return Expected(
        encode_s=encode_flop(shape, prompt) / rate,
        prefill_s=prefill_flop(shape, prompt) / rate,
        decode_s=decode_bytes(shape, prompt, output, batch, kv_width) / (card.tbps * 1e12 * bandwidth),
    )
