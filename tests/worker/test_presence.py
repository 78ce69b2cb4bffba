"""Every running worker has an entry in the registry, which disappears with the worker."""

import os
import platform
import signal
import socket
import subprocess
import sys
import threading

import pytest

import holdfast
from holdfast.clock import SECOND, SystemClock
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Scan
from holdfast.observability import presence
from holdfast.observability.presence import KIND, PresenceObserver, PresenceTiming, read_presence, read_presences
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.in_memory import InMemory
from tests.waiting import wait_until


@pytest.fixture
def in_background():
    """Runs a worker in a thread, and stops it at the end of the test."""
    started = []

    def run(worker):
        thread = threading.Thread(target=worker.run)
        thread.start()
        started.append((worker, thread))
        return thread

    yield run
    for worker, thread in started:
        worker.stop(at_once=True)
        thread.join(60)


def test_the_entry_shows_what_the_worker_does_until_it_stops(app, tmp_path, in_background):
    release = tmp_path / "release"

    @app.handler("wait", queue="slow")
    def wait(_payload):
        while not release.exists():
            threading.Event().wait(0.01)

    wait.enqueue()
    before = SystemClock().now()
    worker = app.worker(processes=2, concurrency=3, name="w-1")
    thread = in_background(worker)
    wait_until(lambda: worker.running == 1)
    [one] = wait_until(lambda: read_presences(app.driver))
    assert (one.name, one.host, one.pid) == ("w-1", socket.gethostname(), os.getpid())
    assert (one.queues, one.types, one.omitted_types) == (("slow",), ("wait",), 0)
    assert (one.version, one.python) == (holdfast.__version__, platform.python_version())
    assert (one.processes, one.concurrency, one.state) == (2, 3, "working")
    assert before <= one.started_at <= SystemClock().now()
    assert before <= one.beat_at <= SystemClock().now()
    assert one.handles("wait")
    assert not one.handles("other")
    worker.stop()
    draining = wait_until(lambda: (found := read_presence(app.driver, "w-1")) and found.draining and found)
    assert (draining.state, draining.held, draining.running) == ("draining", 1, 1)
    release.touch()
    thread.join(60)
    assert read_presences(app.driver) == []
    assert read_presence(app.driver, "w-1") is None


def test_an_idle_worker_writes_its_entry_again_and_again(app, in_background):
    app.handler("t")(lambda _: None)
    observer = PresenceObserver(PresenceTiming(beat_seconds=0.02))
    options = WorkerOptions(processes=1, name="w")
    in_background(Worker(app.driver, options, catalogue=app.catalogue, observers=[observer]))

    def version():
        [entry] = app.driver.do(Read(kind=KIND, keys=["w"]))
        return 0 if entry is None else entry.version

    first = wait_until(version)
    wait_until(lambda: version() > first)


def test_workers_are_listed_page_by_page(app):
    workers = [Worker(app.driver, catalogue=app.catalogue, observers=[PresenceObserver()]) for _ in range(3)]
    observers = [worker._observers for worker in workers]
    for worker, observer in zip(workers, observers, strict=True):
        observer.started(worker.name, worker.queues)
    wait_until(lambda: len(read_presences(app.driver)) == 3)
    names = sorted(worker.name for worker in workers)
    assert [one.name for one in read_presences(app.driver)] == names
    for worker, observer in zip(workers, observers, strict=True):
        observer.stopped(worker.name, {})
    assert read_presences(app.driver) == []


def test_the_entry_of_a_worker_with_many_types_leaves_names_out(app):
    for number in range(presence.MAX_NAMES + 5):
        app.handler("x" * 120 + str(number))(lambda _: None)
    worker = Worker(app.driver, catalogue=app.catalogue, observers=[PresenceObserver()])
    worker._observers.started(worker.name, worker.queues)
    [one] = wait_until(lambda: read_presences(app.driver))
    worker._observers.stopped(worker.name, {})
    assert (len(one.types), one.omitted_types) == (presence.MAX_NAMES, 5)
    assert one.handles("a type that may be left out")


SCRIPT = """
import sys
from holdfast import Holdfast
app = Holdfast(sys.argv[1])
app.handler("t")(lambda _: None)
app.worker(processes=1, name="killed").run()
"""


def test_the_entry_of_a_killed_worker_expires(app, tmp_path):
    app.handler("t")(lambda _: None)
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, app.url])
    try:
        [one] = wait_until(lambda: read_presences(app.driver))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(60)
        [entry] = app.driver.do(Scan(kind=KIND))
        assert (one.name, one.pid, entry.key) == ("killed", process.pid, "killed")
        with holdfast.connect(app.url, caller_clock=True) as store:
            assert store.do(Scan(kind=KIND, now=one.beat_at + int(PresenceTiming().ttl_seconds * SECOND) - 1))
            assert store.do(Scan(kind=KIND, now=entry.expires_at)) == []
    finally:
        process.kill()
        process.wait(60)


def test_a_store_without_a_registry_gets_no_entry():
    with InMemory(declined={Feature.REGISTRY}) as driver:
        worker = Worker(driver, observers=[PresenceObserver()])
        worker._observers.started(worker.name, worker.queues)
        worker._observers.stopped(worker.name, {})
        assert [thread.name for thread in threading.enumerate() if thread.name == "holdfast-presence"] == []
        assert (read_presences(driver), read_presence(driver, "w")) == ([], None)


def test_an_outage_of_the_store_disturbs_no_worker(app, caplog):
    worker = Worker(app.driver, catalogue=app.catalogue, observers=[PresenceObserver()])
    app.driver.close()
    worker._observers.started(worker.name, worker.queues)
    worker._observers.stopped(worker.name, {})
    assert caplog.text == ""
    assert PresenceTiming().beat_seconds * 3 < PresenceTiming().ttl_seconds
