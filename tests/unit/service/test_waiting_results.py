"""One loop reads the states of all tasks that are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast import Client, JobRequest
from holdfast.drivers.requests import Cancel, Inspect
from holdfast.drivers.store import Store
from holdfast.errors import StoreBusy
from holdfast.service.tenants.store_calls import StoreCalls
from holdfast.service.tenants.waiting_results import WaitingResults

TIMEOUT_SECONDS = 60


class ReadLog:
    """A store that remembers which tasks were read, and may fail."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads: list[set[str]] = []
        self.is_away = False

    def do(self, request: Inspect) -> Any:
        assert not request.payloads
        self.reads.append(set(request.job_ids))
        if self.is_away:
            raise StoreBusy(1.0)
        return self._store.do(request)


@pytest.fixture
def store() -> Iterator[Store]:
    with holdfast.connect("memory://") as opened:
        yield opened


async def never() -> None:
    await asyncio.get_running_loop().create_future()


def run(store: Store, check: Callable[[ReadLog, WaitingResults], Awaitable[None]]) -> None:
    async def main() -> None:
        log, calls = ReadLog(store), StoreCalls(1, seconds=TIMEOUT_SECONDS, queue_seconds=TIMEOUT_SECONDS)
        results = WaitingResults(log, calls)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await check(log, results)
        finally:
            await results.stop()
            calls.close()

    asyncio.run(main())


def test_one_read_serves_all_requests(store):
    ids = [answer.id for answer in Client(store).enqueue([JobRequest(type="a") for _ in range(50)])]

    async def check(log: ReadLog, results: WaitingResults) -> None:
        waiting = [asyncio.ensure_future(results.wait(one, 60, ends=never)) for one in [*ids, "missing"]]
        await waiting.pop()  # that does not exist
        assert log.reads == [{*ids, "missing"}]
        store.do(Cancel(job_ids=ids))
        await asyncio.gather(*waiting)
        assert all(read == set(ids) for read in log.reads[1:])

    run(store, check)


def test_an_end_of_this_process_is_read_at_once_and_nothing_else(store):
    first, second = (answer.id for answer in Client(store).enqueue([JobRequest(type="a") for _ in range(2)]))

    async def check(log: ReadLog, results: WaitingResults) -> None:
        waiting = [asyncio.ensure_future(results.wait(one, 60, ends=never)) for one in (first, second)]
        while not log.reads:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.001)
        store.do(Cancel(job_ids=[first]))
        results.changed([first, "other"])
        await waiting[0]
        assert {first} in log.reads
        assert not waiting[1].done()
        waiting[1].cancel()

    run(store, check)


def test_a_failure_ends_requests_that_begin_and_no_others(store):
    first, second = (answer.id for answer in Client(store).enqueue([JobRequest(type="a") for _ in range(2)]))

    async def check(log: ReadLog, results: WaitingResults) -> None:
        waiting = asyncio.ensure_future(results.wait(first, 60, ends=never))
        while not log.reads:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.001)
        log.is_away = True
        with pytest.raises(StoreBusy):
            await results.wait(second, 60, ends=never)
        assert not waiting.done()
        log.is_away = False
        store.do(Cancel(job_ids=[first]))
        await waiting

    run(store, check)
