"""Items that wait for a call that hangs are refused when it ends, and not carried out."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.service.problems import Code, Problem
from holdfast.service.tenants.batching import Batcher


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_item_that_has_waited_too_long_is_refused_and_not_carried_out():
    clock, carried_out = Clock(), []

    async def main() -> None:
        may_end = asyncio.Event()

        async def run(items: list[str]) -> list[str]:
            carried_out.append(items)
            await may_end.wait()
            return items

        batcher = Batcher(run, queue_seconds=4.0, now=clock)
        async with asyncio.timeout(60):
            first = asyncio.ensure_future(batcher.submit("first"))
            early = asyncio.ensure_future(batcher.submit("early"))
            await asyncio.sleep(0)
            clock.now = 3.0
            late = asyncio.ensure_future(batcher.submit("late"))
            await asyncio.sleep(0)
            clock.now = 5.0
            may_end.set()
            assert await first == "first"
            with pytest.raises(Problem) as refused:
                await early
            assert refused.value.code is Code.STORE_BUSY
            assert await late == "late"

    asyncio.run(main())
    assert carried_out == [["first"], ["late"]]
