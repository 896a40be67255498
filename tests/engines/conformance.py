"""What every engine must do, whatever reads behind it: subclass `Conformance` as `Test…` and say how to make one."""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Iterator

import numpy as np
import pytest

from inboxd.engines import golden
from inboxd.engines.protocol import Engine
from inboxd.errors import EngineLost
from inboxd.model import MemorySample, PageImage, PageText


def page(pixels: np.ndarray, *, ink: float | None = None) -> PageImage:
    """Pixels (uint8, height × width × RGB) as the render room would hand them over, without padding."""
    height, width = pixels.shape[:2]
    share = float((pixels < 128).any(axis=2).mean()) if ink is None else ink
    return PageImage(np.ascontiguousarray(pixels), width, height, share)


def blank(width: int, height: int) -> PageImage:
    return page(np.full((height, width, 3), 255, np.uint8))


def text_page() -> PageImage:
    """A small page with `golden.WORDS` on it."""
    return page(golden.upright())


class Conformance:
    """The suite. Most tests share one engine, for starting one may take long."""

    reads = True  # whether its text is what stands on the page

    @staticmethod
    def make() -> Engine:
        """A fresh engine, not started."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def loop(cls) -> Iterator[asyncio.Runner]:
        with asyncio.Runner() as runner:
            yield runner

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, loop: asyncio.Runner) -> Iterator[Engine]:
        engine = cls.make()
        loop.run(engine.start())
        yield engine
        loop.run(engine.close())

    def test_says_what_it_is_and_the_same_when_started_twice(self, engine: Engine, loop: asyncio.Runner) -> None:
        info = loop.run(engine.start())
        assert info.engine and info.model and info.version and info.device
        assert loop.run(engine.start()) == info

    def test_limits_can_be_kept(self, engine: Engine) -> None:
        limits = engine.limits
        assert 1 <= limits.batch_pages <= limits.pages_in_flight
        assert 0 <= limits.batch_wait_s < 1
        assert limits.longest_edge >= 224 and limits.grid >= 1

    def test_reads_as_many_pages_at_once_as_its_limits_say(self, engine: Engine, loop: asyncio.Runner) -> None:
        async def all_at_once() -> list[object]:
            return await asyncio.gather(*(engine.read(text_page()) for _ in range(engine.limits.pages_in_flight)))

        readings = loop.run(all_at_once())
        assert all(isinstance(reading, PageText) for reading in readings)
        texts = {reading.text for reading in readings if isinstance(reading, PageText)}
        assert len(texts) == 1
        text = texts.pop()
        assert text == unicodedata.normalize("NFC", text).strip() != ""
        if self.reads:
            assert all(word in text for word in golden.WORDS)

    def test_more_pages_than_that_only_wait(self, engine: Engine, loop: asyncio.Runner) -> None:
        async def one_more() -> list[object]:
            count = engine.limits.pages_in_flight + 1
            return await asyncio.gather(*(engine.read(blank(40, 60)) for _ in range(count)))

        assert all(isinstance(reading, PageText) for reading in loop.run(one_more()))

    def test_a_blank_page_gives_empty_text(self, engine: Engine, loop: asyncio.Runner) -> None:
        reading = loop.run(engine.read(blank(300, 420)))
        assert isinstance(reading, PageText)
        assert (reading.text, reading.boxes, reading.finish) == ("", (), "stop")

    @pytest.mark.parametrize(("width", "height"), [(1, 1), (3, 1540), (1540, 3), (700, 90)])
    def test_odd_sizes_are_pages_too(self, engine: Engine, loop: asyncio.Runner, width: int, height: int) -> None:
        assert isinstance(loop.run(engine.read(blank(width, height))), PageText)

    def test_padding_is_not_part_of_the_page(self, engine: Engine, loop: asyncio.Runner) -> None:
        small = text_page()
        padded = np.full((small.height + 37, small.width + 53, 3), 255, np.uint8)
        padded[: small.height, : small.width] = small.pixels
        reading = loop.run(engine.read(PageImage(padded, small.width, small.height, small.ink)))
        assert isinstance(reading, PageText)
        assert all(
            0 <= box.x0 < box.x1 <= small.width and 0 <= box.y0 < box.y1 <= small.height for box in reading.boxes
        )
        if self.reads:
            assert all(word in reading.text for word in golden.WORDS)

    def test_memory_is_a_sample_or_none(self, engine: Engine, loop: asyncio.Runner) -> None:
        sample = loop.run(engine.memory())
        assert sample is None or isinstance(sample, MemorySample)

    def test_its_life(self) -> None:
        """Closed, it reads nothing; closing is idempotent, and after it a new life is possible."""

        async def life() -> None:
            engine = self.make()
            await engine.close()
            await engine.start()
            in_flight = asyncio.create_task(engine.read(text_page()))
            await asyncio.sleep(0)
            await engine.close()
            with pytest.raises(EngineLost):
                await in_flight
            await engine.close()
            with pytest.raises(EngineLost):
                await engine.read(text_page())
            assert await engine.memory() is None
            await engine.start()
            assert isinstance(await engine.read(blank(50, 50)), PageText)
            await engine.close()

        asyncio.run(life())
