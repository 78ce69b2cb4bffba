"""A worker on PostgreSQL runs its jobs, and recovers without help from a crash of the server."""

import logging
import signal
import subprocess
import sys
import threading
import time

import holdfast
from holdfast import Client, Holdfast, JobRequest
from holdfast.log.records import log
from holdfast.observability import LogObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.timing import WorkerTiming
from holdfast.worker.worker import Worker
from tests.postgres.proxy import LosingProxy
from tests.soak.ordered import run_ordered
from tests.soak.server_crashes import run_server_crashes
from tests.waiting import wait_until

WORKER = """
import sys
from datetime import timedelta
from holdfast.app import Holdfast
from holdfast.worker.options import WorkerOptions

app = Holdfast(sys.argv[1])
app.handler("t", queue="q")(lambda payload: None)
app.worker(WorkerOptions(queues=("q",), processes=2, lease=timedelta(seconds=3))).run()
app.close()
"""


def wait_until_done(store, count, within=60):
    deadline = time.monotonic() + within
    while sum(row.done for row in store.counts()) < count:
        assert time.monotonic() < deadline, store.counts()
        time.sleep(0.05)


def test_a_worker_continues_after_a_crash_of_the_server(server):
    url = server.create_database("worker")
    store = holdfast.connect(url)
    client = Client(store)
    worker = subprocess.Popen([sys.executable, "-c", WORKER, url], stderr=subprocess.PIPE, text=True)
    try:
        client.enqueue([JobRequest(type="t", queue="q") for _ in range(200)])
        wait_until_done(store, 200)
        server.kill()
        server.start()
        client.enqueue([JobRequest(type="t", queue="q") for _ in range(200)])
        wait_until_done(store, 400)
        assert worker.poll() is None
    finally:
        worker.send_signal(signal.SIGTERM)
        _, stderr = worker.communicate(timeout=60)
    assert worker.returncode == 0, stderr
    store.close()


def test_a_server_that_does_not_answer_is_logged_while_the_worker_waits(url, caplog):
    proxy = LosingProxy(url)
    app = Holdfast(proxy.url)
    app.handler("t")(lambda _payload: None)
    worker = Worker(
        app.driver,
        WorkerOptions(processes=1),
        catalogue=app.catalogue,
        observers=[LogObserver()],
        timing=WorkerTiming(silence_seconds=0.5),
    )
    running = threading.Thread(target=worker.run)

    def logged(event: str) -> list[logging.LogRecord]:
        return [record for record in caplog.records if record.name == log.name and record.event == event]

    with caplog.at_level(logging.INFO, log.name):
        running.start()
        try:
            wait_until(lambda: logged("worker.started"))
            with proxy.held():
                failed = wait_until(lambda: logged("store.failed"))[0]
            assert (failed.verb, failed.reason) == ("reserve", "StoreUnavailable: no answer for 0 s")
            wait_until(lambda: logged("store.recovered"))
        finally:
            worker.stop()
            running.join(60)
    app.close()
    proxy.close()


def test_no_job_is_lost_or_ends_twice_when_the_server_crashes_under_workers(tmp_path):
    run_server_crashes(tmp_path, workers=2, count=1)


def test_domains_stay_in_order_when_workers_are_killed_and_stopped(postgres_database, tmp_path):
    url = postgres_database()
    print(run_ordered(tmp_path, url, domains=6, offsets=10, workers=2, seconds=2, idle_leases=10))
