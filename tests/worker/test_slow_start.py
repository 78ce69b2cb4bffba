"""A worker reserves what it can start soon, also before it knows how long its jobs take."""

import asyncio
from datetime import timedelta

JOBS = 4000


def test_jobs_that_share_a_process_are_not_reserved_and_then_released(app, drain):
    @app.handler("nap")
    async def nap(_payload):
        await asyncio.sleep(0.1)

    for _ in range(0, JOBS, 1000):
        app.client.enqueue([nap.request() for _ in range(1000)])
    tally = drain(processes=1, concurrency=200, lease=timedelta(seconds=15))
    assert tally["acked"] == JOBS
    assert tally["released"] < JOBS // 10
