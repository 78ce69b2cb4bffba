"""Many requests that wait for results: all get them, and one read of the states serves all."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.model.settlement import Ack
from tests.service.http_service import TIMEOUT_SECONDS, RunningService, in_thread, running_service, sqlite_url
from tests.waiting import wait_until

MINUTE = 60_000_000


CLIENT_TASKS = 50  # of one client: the time that the pool of httpx takes grows with the square of its connections


async def wait_for_all(running: RunningService, task_ids: list[str]) -> list[tuple[int, object]]:
    """Wait for the result of each task on a connection of its own; return statuses and results, in order."""
    limits, timeout = httpx.Limits(max_connections=None), 2 * TIMEOUT_SECONDS
    async with AsyncExitStack() as stack:
        waiting = []
        for start in range(0, len(task_ids), CLIENT_TASKS):
            client = httpx.AsyncClient(base_url=running.url, timeout=timeout, limits=limits, trust_env=False)
            await stack.enter_async_context(client)
            some = task_ids[start : start + CLIENT_TASKS]
            waiting += [client.get(f"/v1/tasks/{task_id}/result", params={"wait": 60}) for task_id in some]
        answers = await asyncio.gather(*waiting)
    return [(answer.status_code, answer.json().get("result")) for answer in answers]


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.long)])
def test_many_requests_that_wait_for_results_get_them(tmp_path, count):
    with running_service(sqlite_url(tmp_path), threads=1) as running:
        tasks = [{"command": "a", "payload": number} for number in range(count)]
        created = running.post("/v1/tasks/batch", {"tasks": tasks}).json()["tasks"]
        task_ids = [item["taskId"] for item in created]
        answers = in_thread(lambda: asyncio.run(wait_for_all(running, task_ids)))
        wait_until(lambda: running.service.requests._waiting == count)
        # As another process would end them: nobody tells the service.
        leased = running.store.reserve(["default"], limit=count, lease_for=MINUTE)
        running.store.settle([Ack(one.lease, result=one.job.payload) for one in leased])
        assert answers() == [(200, number) for number in range(count)]
