"""Async resources: made and closed on the event loop of the async handlers, in every way to run a job."""

import asyncio
import http.server
import os
import threading
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from datetime import timedelta
from types import SimpleNamespace

import anyio
import httpx
import pytest

import holdfast
from holdfast.clock import ManualClock
from holdfast.retry import NoDelay
from holdfast.testing.inline import Inline
from holdfast.worker.resources import Resources
from tests.worker.conftest import ended

PATIENT = {"lease": timedelta(seconds=60), "grace": timedelta(seconds=60)}  # a slow machine interrupts nothing
ONE_AT_A_TIME = {"processes": 1, **PATIENT}
FOUR_THREADS = {"processes": 1, "concurrency": 4, **PATIENT}


@pytest.fixture
def server_url():
    """The address of an HTTP server on the loopback interface."""

    class Answer(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.path)))
            self.end_headers()
            self.wfile.write(self.path.encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def fetch(app, server_url, tmp_path):
    """A handler that uses an ``httpx.AsyncClient``, whose making and closing leave files."""

    @app.resource
    async def client():
        async with httpx.AsyncClient(base_url=server_url, timeout=60) as opened:
            (tmp_path / f"made-{os.getpid()}").touch(exist_ok=False)
            yield opened
        (tmp_path / f"closed-{os.getpid()}").touch(exist_ok=False)

    @app.handler("fetch")
    async def fetch(path, ctx):
        opened = await ctx.resources.aget("client")
        return (await opened.get(path)).text

    return fetch


def pids_of(tmp_path, event):
    return sorted(path.name.removeprefix(f"{event}-") for path in tmp_path.glob(f"{event}-*"))


@pytest.mark.parametrize("mode", [ONE_AT_A_TIME, FOUR_THREADS])
def test_the_handlers_of_a_process_share_a_client_that_is_closed_with_it(app, drain, fetch, tmp_path, mode):
    answers = app.client.enqueue([fetch.request(f"/{number}") for number in range(12)])
    assert drain(**mode) == {"acked": 12}
    assert [app.client.result(answer.id) for answer in answers] == [f"/{number}" for number in range(12)]
    assert len(pids_of(tmp_path, "made")) == 1
    assert pids_of(tmp_path, "made") == pids_of(tmp_path, "closed")


@pytest.mark.parametrize("mode", [ONE_AT_A_TIME, FOUR_THREADS])
def test_a_child_that_is_replaced_closes_its_client(app, drain, fetch, tmp_path, mode):
    app.client.enqueue([fetch.request("/") for _ in range(12)])
    assert drain(**mode, recycle_after=4)["acked"] == 12
    assert len(pids_of(tmp_path, "made")) > 1
    assert pids_of(tmp_path, "made") == pids_of(tmp_path, "closed")


def test_jobs_in_this_process_share_a_client_until_the_worker_is_closed(app, fetch, tmp_path):
    app.client.enqueue([fetch.request("/") for _ in range(3)])
    with closing(app.worker()) as worker:
        assert [worker.process_once().status for _ in range(3)] == ["acked"] * 3
        assert pids_of(tmp_path, "made") == [str(os.getpid())]
        assert pids_of(tmp_path, "closed") == []
    assert pids_of(tmp_path, "closed") == [str(os.getpid())]


def test_the_test_kit_opens_and_closes_async_resources(app, fetch, tmp_path):
    clock = ManualClock()
    with app.using(holdfast.connect("memory://", clock=clock), clock=clock):
        inline = Inline(app, clock)
        assert inline.run_job(fetch, "/inline") == "/inline"
        assert pids_of(tmp_path, "closed") == [str(os.getpid())]
        for path in tmp_path.glob("*-*"):
            path.unlink()
        fetch.enqueue("/drained")
        assert inline.drain() == {"acked": 1}
    assert pids_of(tmp_path, "closed") == [str(os.getpid())]


# How a resource is written -----------------------------------------------------------------------------------


def factories(events):
    """Every kind of factory; each makes an object whose opening and closing are recorded."""

    class Closable:
        async def aclose(self):
            events.append("closed")

    class AsyncClose:
        async def close(self):
            events.append("closed")

    class Manager(AbstractAsyncContextManager):
        async def __aenter__(self):
            events.append("opened")
            return self

        async def __aexit__(self, *_):
            events.append("closed")

    async def generator():
        events.append("opened")
        yield SimpleNamespace()
        events.append("closed")

    async def coroutine():
        await asyncio.sleep(0)
        events.append("opened")
        return Closable()

    async def coroutine_of_a_manager():
        return Manager()

    async def coroutine_of_an_object_with_close():
        events.append("opened")
        return SimpleNamespace(close=lambda: events.append("closed"))

    def object_with_aclose():
        events.append("opened")
        return Closable()

    def object_with_async_close():
        events.append("opened")
        return AsyncClose()

    def manager():
        return Manager()

    @contextmanager
    def ordinary():
        events.append("opened")
        yield SimpleNamespace()
        events.append("closed")

    def ordinary_generator():
        events.append("opened")
        yield SimpleNamespace()
        events.append("closed")

    return [
        generator,
        asynccontextmanager(generator),
        coroutine,
        coroutine_of_a_manager,
        coroutine_of_an_object_with_close,
        object_with_aclose,
        object_with_async_close,
        manager,
        ordinary,
        ordinary_generator,
    ]


@pytest.mark.parametrize("index", range(len(factories([]))))
def test_an_async_handler_gets_every_kind_of_resource(app, index):
    events = []
    app.catalogue.resources["it"] = factories(events)[index]
    seen = []

    @app.handler("use")
    async def use(_payload, ctx):
        both = await asyncio.gather(ctx.resources.aget("it"), ctx.resources.aget("it"))
        seen.extend(both)

    app.client.enqueue([use.request(), use.request()])
    with closing(app.worker()) as worker:
        assert [worker.process_once().status for _ in range(2)] == ["acked"] * 2
        assert events == ["opened"]
    assert events == ["opened", "closed"]
    assert len(seen) == 4
    assert all(one is seen[0] for one in seen)


@pytest.mark.parametrize("index", range(8))  # the async ones
def test_a_sync_handler_that_asks_for_an_async_resource_gets_a_clear_error(app, index):
    app.catalogue.resources["it"] = factories([])[index]

    @app.handler("use", max_attempts=1)
    def use(how, ctx):
        return ctx.resources["it"] if how == "item" else ctx.resources.aget("it")

    answers = [use.enqueue("item"), use.enqueue("aget")]
    with closing(app.worker()) as worker:
        assert [worker.process_once().status for _ in range(2)] == ["dead", "dead"]
    first, second = (ended(app, answer).last_error for answer in answers)
    assert 'wanted `await ctx.resources.aget("it")` in an async handler, got an async resource' in first
    assert "wanted an async handler for `aget`" in second


def test_an_unknown_resource_is_refused(app):
    @app.handler("use", max_attempts=1)
    async def use(_payload, ctx):
        return await ctx.resources.aget("nobody")

    answer = use.enqueue()
    with closing(app.worker()) as worker:
        assert worker.process_once().status == "dead"
    assert "one of: none" in ended(app, answer).last_error


def test_a_resource_is_left_in_the_task_that_entered_it(app):
    """A task group of anyio, as many clients have one inside, refuses to be left in another task."""
    events = []

    @app.resource
    async def group():
        async with anyio.create_task_group() as opened:
            opened.start_soon(anyio.sleep_forever)
            yield opened
            opened.cancel_scope.cancel()
        events.append("closed")

    @app.handler("use")
    async def use(_payload, ctx):
        return type(await ctx.resources.aget("group")).__name__

    use.enqueue()
    with closing(app.worker()) as worker:
        assert worker.process_once().status == "acked"
    assert events == ["closed"]


# Faults ------------------------------------------------------------------------------------------------------


def test_all_resources_are_closed_the_newest_first_and_errors_are_logged(app, caplog):
    events = []

    def add(name, *, is_broken):
        async def factory():
            yield name
            events.append(name)
            if is_broken:
                raise OSError(f"{name} is broken")

        factory.__name__ = name
        app.resource(factory)

    for name in ("first", "second", "third"):
        add(name, is_broken=name == "second")

    @app.handler("use")
    async def use(_payload, ctx):
        return [await ctx.resources.aget(name) for name in ("first", "second", "third")]

    use.enqueue()
    with closing(app.worker()) as worker:
        assert worker.process_once().status == "acked"
    assert events == ["third", "second", "first"]
    [record] = [record for record in caplog.records if getattr(record, "event", "") == "resource.close_failed"]
    assert (record.resource, record.reason) == ("second", "second is broken")


def test_a_resource_that_could_not_be_made_fails_its_attempt_and_is_made_by_the_next_one(app):
    made = []

    @app.resource
    async def flaky():
        made.append(1)
        if len(made) == 1:
            raise ConnectionError("the server is down")
        yield "up"

    @app.handler("use", retry=NoDelay())
    async def use(_payload, ctx):
        return await ctx.resources.aget("flaky")

    answer = use.enqueue()
    with closing(app.worker()) as worker:
        assert worker.process_once().status == "retried"
        assert "the server is down" in app.client.get(answer.id).last_error
        assert worker.process_once().status == "acked"
    assert app.client.result(answer.id) == "up"


def test_a_resource_that_does_not_close_is_cancelled(caplog):
    events = []

    async def stuck():
        yield "open"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async def use():
        resources = Resources({"stuck": stuck}, close_seconds=0.01)
        assert await resources.aget("stuck") == "open"
        await resources.aclose()

    asyncio.run(use())
    assert events == ["cancelled"]
    assert [
        record.resource for record in caplog.records if getattr(record, "event", "") == "resource.close_failed"
    ] == ["stuck"]


@pytest.mark.parametrize("mode", [ONE_AT_A_TIME, FOUR_THREADS])
def test_a_resource_that_does_not_close_stops_no_worker(app, drain, mode):
    """The child is killed after the grace time. Its jobs have been settled."""

    @app.resource
    async def stuck():
        yield "open"
        await asyncio.Event().wait()

    @app.handler("use")
    async def use(_payload, ctx):
        return await ctx.resources.aget("stuck")

    answer = use.enqueue()
    assert drain(**{**mode, "grace": timedelta(seconds=1)}) == {"acked": 1}
    assert app.client.result(answer.id) == "open"


def test_after_an_interrupted_attempt_the_next_one_gets_a_new_resource(app, drain, tmp_path):
    """The event loop is closed with the attempt. Its clean-up can still use the resource."""

    @app.resource
    async def session():
        state = SimpleNamespace(is_open=True)
        (tmp_path / f"opened-{len(list(tmp_path.glob('opened-*')))}").touch()
        yield state
        state.is_open = False
        (tmp_path / f"closed-{len(list(tmp_path.glob('closed-*')))}").touch()

    @app.handler("use", timeout=timedelta(seconds=2))
    async def use(_payload, ctx):
        state = await ctx.resources.aget("session")
        if ctx.attempt == 2:
            return state.is_open
        try:
            await asyncio.Event().wait()
        finally:
            (tmp_path / f"cleaned-up-{state.is_open}").touch()

    answer = use.enqueue()
    assert drain(**ONE_AT_A_TIME) == {"retried": 1, "acked": 1}
    assert app.client.result(answer.id) is True
    assert (tmp_path / "cleaned-up-True").exists()
    assert len(list(tmp_path.glob("opened-*"))) == len(list(tmp_path.glob("closed-*"))) == 2


def test_an_interrupted_attempt_of_several_leaves_the_resource_to_the_others(app, drain, tmp_path):
    @app.resource
    async def session():
        (tmp_path / f"opened-{len(list(tmp_path.glob('opened-*')))}").touch()
        yield "open"

    @app.handler("use", timeout=timedelta(seconds=2))
    async def use(payload, ctx):
        await ctx.resources.aget("session")
        if payload == "waits" and ctx.attempt == 1:
            await asyncio.Event().wait()

    app.client.enqueue([use.request("waits"), *(use.request("ends") for _ in range(5))])
    assert drain(**FOUR_THREADS) == {"retried": 1, "acked": 6}
    assert len(list(tmp_path.glob("opened-*"))) == 1
