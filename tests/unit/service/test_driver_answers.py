"""A call with an id is carried out once, however often it is sent; what is kept of it is bounded."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.errors import StoreBusy
from holdfast.service.driver import answers as driver_answers
from holdfast.service.driver.answers import CallAnswers

KEY = ("main", "worker", "1")


class Calls:
    """Counts calls, and answers each with its number, in a given size."""

    def __init__(self, size: int = 1) -> None:
        self.count = 0
        self.size = size
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def make(self) -> bytes:
        self.count += 1
        number = self.count
        await self.may_end.wait()
        return b"%d" % number * self.size


def test_a_repeated_call_gets_the_first_answer_also_while_it_runs():
    async def run() -> None:
        answers, calls = CallAnswers(), Calls()
        calls.may_end.clear()
        first = asyncio.ensure_future(answers.answer(KEY, calls.make))
        again = asyncio.ensure_future(answers.answer(KEY, calls.make))
        await asyncio.sleep(0)
        first.cancel()  # its client has gone
        calls.may_end.set()
        assert await again == b"1"
        assert await answers.answer(KEY, calls.make) == b"1"
        assert await answers.answer((*KEY[:2], "2"), calls.make) == b"2"
        assert await answers.answer(("main", "other", "1"), calls.make) == b"3"

    asyncio.run(run())


def test_a_call_that_failed_is_carried_out_again():
    async def fail() -> bytes:
        raise StoreBusy(1.0)

    async def run() -> None:
        answers, calls = CallAnswers(), Calls()
        with pytest.raises(StoreBusy):
            await answers.answer(KEY, fail)
        assert await answers.answer(KEY, calls.make) == b"1"

    asyncio.run(run())


def test_old_and_large_answers_are_forgotten(monkeypatch):
    async def run() -> None:
        now = 0.0
        answers, calls = CallAnswers(now=lambda: now), Calls(size=40)
        monkeypatch.setattr(driver_answers, "MAX_KEPT_BYTES", 100)
        for name in "abc":
            await answers.answer((*KEY[:2], name), calls.make)
        await asyncio.sleep(0)  # the callbacks have run
        assert [key[2] for key in answers._answers] == ["b", "c"]
        now = driver_answers.KEPT_SECONDS + 1
        await answers.answer((*KEY[:2], "d"), calls.make)
        await asyncio.sleep(0)
        assert [key[2] for key in answers._answers] == ["d"]
        assert answers._kept_bytes == 40

    asyncio.run(run())
