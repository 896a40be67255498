"""The engine that reads nothing keeps the contract, so that the pipeline can be tested and timed with it."""

import asyncio

from tests.engines.conformance import Conformance, text_page

from inboxd.config import Settings
from inboxd.engines.null import NullEngine, create
from inboxd.model import PageText


class TestNullEngine(Conformance):
    reads = False

    @staticmethod
    def make() -> NullEngine:
        return NullEngine(delay=0.001, pages_in_flight=3)


def test_the_text_is_the_size_of_the_page() -> None:
    async def read() -> object:
        engine = create(Settings())
        await engine.start()
        return await engine.read(text_page())

    reading = asyncio.run(read())
    assert isinstance(reading, PageText)
    assert reading.text == f"page {text_page().width}×{text_page().height}"
