"""A thread that uses an async connection on the event loop of its caller."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.drivers.on_loop import OnLoop

MAX_WAIT_SECONDS = 60


def run(scenario):
    """Run ``scenario(pool)``, with a pool of one thread for the caller."""

    async def bounded():
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await scenario(pool)

    asyncio.run(bounded())


def test_coroutines_run_on_the_loop_and_the_thread_gets_their_results_and_errors():
    async def identify():
        return threading.get_ident()

    async def fail():
        raise OSError("the connection is lost")

    async def scenario(pool):
        on_loop = OnLoop(None)

        def call():
            with pytest.raises(OSError, match="lost"):
                on_loop.run(fail())
            return on_loop.run(identify()), threading.get_ident()

        loop_thread, own_thread = await on_loop.wait(pool.submit(call))
        assert loop_thread == threading.get_ident()
        assert own_thread != loop_thread

    run(scenario)


def test_a_caller_that_is_cancelled_again_and_again_still_waits_for_the_coroutine():
    events = []

    async def use_connection(began, may_end):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()  # as a driver that cancels its statement, and reads the answer
            events.append("connection is free")

    async def scenario(pool):
        began, may_end = asyncio.Event(), asyncio.Event()
        on_loop = OnLoop(None)
        waiting = asyncio.create_task(on_loop.wait(pool.submit(lambda: on_loop.run(use_connection(began, may_end)))))
        await began.wait()
        for _ in range(3):
            waiting.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not waiting.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert events == ["connection is free"]

    run(scenario)


def test_nothing_is_started_for_a_caller_that_was_cancelled():
    started = []

    async def use_connection():
        started.append(1)

    async def scenario(pool):
        may_run = threading.Event()
        on_loop = OnLoop(None)

        def call():
            assert may_run.wait(MAX_WAIT_SECONDS)
            on_loop.run(use_connection())

        waiting = asyncio.create_task(on_loop.wait(pool.submit(call)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        may_run.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert started == []

    run(scenario)
