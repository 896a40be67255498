"""The capacity arithmetic, against figures that others published or that were measured."""

from hypothesis import given
from hypothesis import strategies as st

from inboxd.core import capacity
from inboxd.core.capacity import Card, Shape

LIGHTONOCR = Shape(
    patch=14,
    merge=2,
    vision_layers=24,
    vision_hidden=1024,
    vision_mlp=4096,
    layers=28,
    hidden=1024,
    heads=16,
    kv_heads=8,
    head_dim=128,
    mlp=3072,
    vocab=151_936,
)
A4 = (1654, 2339)  # pixels at 200 dpi


def test_an_a4_page_lies_on_the_grid_and_costs_2145_tokens() -> None:
    width, height = capacity.on_grid(*A4, longest_edge=1540, grid=LIGHTONOCR.grid)
    assert (width, height) == (1092, 1540)
    assert capacity.image_tokens(width, height, LIGHTONOCR.grid) == 2145


def test_the_largest_page_is_a_square() -> None:
    assert capacity.image_tokens(1540, 1540, 28) == 3025


def test_kv_bytes_are_those_that_the_engine_reported() -> None:
    """vLLM 0.26 on an H200 (2026-11-30): 114,688 bytes a token."""
    assert capacity.kv_bytes(LIGHTONOCR) == 114_688
    assert capacity.kv_bytes(LIGHTONOCR, width=1) == 57_344


def test_weights_come_to_those_of_the_model() -> None:
    """1,005.6 million parameters, some 6 million of them in the projector."""
    assert 995e6 < LIGHTONOCR.weight_bytes(1) < 1006e6


def test_operations_of_a_page() -> None:
    """The vision tower: 6.91 TFLOP in matrices and 7.24 in attention; the prompt: 1.9 and 0.5."""
    assert round(capacity.encode_flop(LIGHTONOCR, 2145) / 1e12, 1) == 14.1
    assert round(capacity.prefill_flop(LIGHTONOCR, 2157) / 1e12, 1) == 2.4


def test_expected_rate_of_an_h200_is_near_the_published_estimate() -> None:
    page = capacity.expected(LIGHTONOCR, Card(tflops=989, tbps=4.8), prompt=2157, output=800, batch=256)
    assert 8.0 < page.pages_s < 8.7
    ceiling = capacity.expected(
        LIGHTONOCR, Card(tflops=989, tbps=4.8), prompt=2157, output=800, batch=256, arithmetic=1, bandwidth=1
    )
    assert 14.5 < ceiling.pages_s < 15.7


def test_fp8_kv_halves_what_decoding_reads() -> None:
    wide = capacity.decode_bytes(LIGHTONOCR, 2157, 700, batch=256)
    narrow = capacity.decode_bytes(LIGHTONOCR, 2157, 700, batch=256, kv_width=1)
    assert 0.5 < narrow / wide < 0.52


def test_window_is_bound_by_memory_or_by_seats() -> None:
    assert capacity.window(1_180_000, 2173, 800, seats=256) == 256
    assert capacity.window(180_000, 2173, 800, seats=256) == 60
    assert capacity.window(100, 2173, 800, seats=256) == 1


def test_micro_batch_follows_the_encoder_budget() -> None:
    assert capacity.micro_batch(16_384, 2145) == 7
    assert capacity.micro_batch(8_192, 2145) == 3
    assert capacity.micro_batch(1_024, 2145) == 1


def test_memory_is_claimed_from_what_is_free() -> None:
    gib = 2**30
    assert capacity.memory_fraction(24 * gib, 24 * gib, 0.9) == 0.9
    assert capacity.memory_fraction(24 * gib, 12 * gib, 0.9) == 0.45
    assert capacity.kv_tokens(24 * gib, 0.9, 6 * gib, 114_688) == 146_051
    assert capacity.kv_tokens(4 * gib, 0.9, 6 * gib, 114_688) == 0


@given(
    width=st.integers(1, 20_000),
    height=st.integers(1, 20_000),
    edge=st.sampled_from([784, 1540, 2048]),
)
def test_a_page_on_the_grid_is_a_whole_number_of_tokens_and_no_larger_than_a_square(
    width: int, height: int, edge: int
) -> None:
    w, h = capacity.on_grid(width, height, edge, 28)
    assert w % 28 == 0 and h % 28 == 0 and min(w, h) >= 28
    assert max(w, h) < edge + 28
    assert capacity.image_tokens(w, h, 28) == (w // 28) * (h // 28) <= (-(-edge // 28)) ** 2
