"""Requests that wait until a task has ended: one loop per space reads the states of all tasks that are waited for.

A state is read when the first request waits for its task, when this process has ended a lease of the task, and twice a
second with all others: one call for up to READ_TASKS tasks, without payloads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from holdfast.clock import monotonic
from holdfast.drivers.requests import Inspect
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.service.problems import Code, Problem
from holdfast.service.tenants.store_calls import StoreCalls

POLL_SECONDS = 0.5  # between two reads of all states
READ_TASKS = 1000  # in one call


class WaitingResults:
    """The requests of one space that wait for a result. Used by one event loop."""

    def __init__(self, store: Store, calls: StoreCalls) -> None:
        self._store = store
        self._calls = calls
        self._waiting: defaultdict[str, list[asyncio.Future[None]]] = defaultdict(list)  # by task id
        self._due: set[str] = set()  # tasks whose state is to be read at once
        self._is_due = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None

    def changed(self, task_ids: Iterable[str]) -> None:
        """These tasks may have ended."""
        self._due.update(task_id for task_id in task_ids if task_id in self._waiting)
        if self._due:
            self._is_due.set()

    async def wait(self, task_id: str, seconds: float, *, ends: Callable[[], Awaitable[object]]) -> None:
        """Return when a task has ended or does not exist, after so many seconds, or when ``ends`` has ended.

        Raises ``HoldfastError`` or ``Problem`` if the store fails at the first read.
        """
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[task_id].append(ended)
        self.changed([task_id])
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._read_until_idle())
        ending = asyncio.ensure_future(ends())
        try:
            awaited: set[asyncio.Future[Any]] = {ended, ending}
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            self._waiting[task_id].remove(ended)
            if not self._waiting[task_id]:
                del self._waiting[task_id]
        if ended.done():
            ended.result()

    async def stop(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop

    async def _read_until_idle(self) -> None:
        poll_at = monotonic() + POLL_SECONDS
        while self._waiting:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_due.wait(), poll_at - monotonic())
            due = [task_id for task_id in self._due if task_id in self._waiting]
            self._due.clear()
            self._is_due.clear()
            await self._read(due, is_first=True)
            if monotonic() >= poll_at:  # also if some are always due
                await self._read(list(self._waiting), is_first=False)
                poll_at = monotonic() + POLL_SECONDS

    async def _read(self, task_ids: list[str], *, is_first: bool) -> None:
        for start in range(0, len(task_ids), READ_TASKS):
            await self._read_batch(task_ids[start : start + READ_TASKS], is_first=is_first)

    async def _read_batch(self, task_ids: list[str], *, is_first: bool) -> None:
        """Wake the requests whose tasks have ended. After a failure of a later read, the next one tries again."""
        try:
            found = await self._calls.settle(self._store.do, Inspect(job_ids=task_ids, payloads=False))
        except (HoldfastError, Problem) as error:
            is_busy = isinstance(error, Problem) and error.code is Code.OVERLOADED
            if is_first and not is_busy:
                for ended in self._open(task_ids):
                    ended.set_exception(error)
            return
        for ended in self._open(
            [task_id for task_id in task_ids if task_id not in found or found[task_id].job.state.has_ended]
        ):
            ended.set_result(None)

    def _open(self, task_ids: list[str]) -> list[asyncio.Future[None]]:
        return [ended for task_id in task_ids for ended in self._waiting.get(task_id, ()) if not ended.done()]
