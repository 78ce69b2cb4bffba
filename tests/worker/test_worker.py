"""A worker with real child processes, and handlers of all kinds."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import JobRequest, connect, linux
from holdfast.app import Holdfast
from holdfast.clock import DAY, SECOND, SystemClock
from holdfast.driver import JobRecord
from holdfast.drivers.requests import Cancel, Inspect, Reap, Reserve, Settle
from holdfast.errors import InvalidInput, StoreBusy, Unsupported
from holdfast.model import bounds
from holdfast.model.ledger import Ending
from holdfast.model.request import META_RETRY
from holdfast.model.retry import Fixed
from holdfast.model.settlement import Ack, Fail
from holdfast.worker import settler
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.limits import Limits
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes import dispatch
from holdfast.worker.processes.pool import ChildPool
from holdfast.worker.processes.running import Run
from holdfast.worker.timing import MaintenanceTiming, WorkerTiming
from tests.processes import descendants, is_alive
from tests.requests_seen import answer_requests
from tests.worker import hostile_handlers
from tests.worker.conftest import QUICK, ended


def test_each_of_many_jobs_runs_once(app, drain):
    @app.handler("square")
    def square(payload):
        return payload * payload

    answers = square.enqueue_many(range(500))
    assert drain() == {"acked": 500}
    assert [app.client.result(answer.id) for answer in answers] == [number * number for number in range(500)]
    assert len(app.driver.ledger(limit=1000)) == 500


def test_failed_jobs_are_retried_until_they_succeed_or_have_no_attempt_left(app, drain):
    @app.handler("flaky", max_attempts=3)
    def flaky(payload, ctx):
        if ctx.attempt < payload:
            raise RuntimeError(f"attempt {ctx.attempt}")
        return ctx.attempt

    answers = [flaky.enqueue(number) for number in (1, 2, 3, 4)]
    assert drain() == {"acked": 3, "retried": 5, "dead": 1}
    records = [ended(app, answer) for answer in answers]
    assert [record.state for record in records] == ["done", "done", "done", "dead"]
    assert records[-1].dead_reason == "attempts exhausted"


def test_the_retry_policy_of_a_job_is_used_and_a_tampered_one_is_ignored(app, drain):
    @app.handler("once", retry=Fixed(timedelta(days=1)))
    def once(_payload, ctx):
        if ctx.attempt == 1:
            raise RuntimeError("the first")

    answers = [once.enqueue(retry=QUICK), once.enqueue()]
    tampered = JobRecord(
        id="tampered", type="once", queue="default", payload=b"1", created_at=1, meta={META_RETRY: "soon"}
    )
    app.driver.enqueue([tampered])
    assert drain(until_drained=False, max_jobs=4) == {"retried": 3, "acked": 1}
    records = [app.client.get(job_id) for job_id in (answers[0].id, answers[1].id, tampered.id)]
    assert [record.state for record in records] == ["done", "ready", "ready"]
    assert [record.run_at - record.failed_at for record in records[1:]] == [DAY, DAY]


@pytest.mark.parametrize("handler", hostile_handlers.HOSTILE_HANDLERS, ids=lambda handler: handler.__name__)
def test_a_handler_that_does_not_stop_is_stopped_at_its_timeout(app, drain, handler):
    stubborn = app.handler("stubborn", max_attempts=1, timeout=timedelta(milliseconds=200))(handler)

    @app.handler("fine")
    def fine(_payload):
        return None

    answer = stubborn.enqueue()
    app.client.enqueue([fine.request() for _ in range(20)])
    started = time.monotonic()
    assert drain(processes=1) == {"acked": 20, "dead": 1}
    assert time.monotonic() - started < 20
    assert "timed out" in ended(app, answer).last_error


@pytest.mark.parametrize(
    "handler", [hostile_handlers.dies_by_signal, hostile_handlers.exits_at_once], ids=lambda handler: handler.__name__
)
def test_a_child_that_crashes_fails_only_its_own_attempt(app, drain, handler):
    deadly = app.handler("deadly")(handler)

    @app.handler("fine")
    def fine(_payload):
        return None

    app.client.enqueue([fine.request() for _ in range(50)])
    answer = deadly.enqueue()
    app.client.enqueue([fine.request() for _ in range(50)])
    drain()
    counts = {count.type: count for count in app.driver.counts()}
    assert counts["fine"].done == 100
    record = ended(app, answer)
    assert record.dead_reason == "poison"  # it crashed three processes in a row
    assert (record.attempts, record.crashes) == (3, 3)


def test_a_slow_settle_limits_how_many_jobs_are_reserved(app, drain, monkeypatch):
    """Jobs that are done and not settled hold leases that must be extended, and a crash would repeat their work."""
    store, held, most = app.driver, 0, 0

    def counting_reserve(request, do):
        nonlocal held, most
        reserved = do(request)
        held += len(reserved.reservations)
        most = max(most, held)
        return reserved

    def slow_settle(request, do):
        nonlocal held
        time.sleep(0.3)
        answers = do(request)
        held -= len(answers)
        return answers

    answer_requests(monkeypatch, store, Reserve, counting_reserve)
    answer_requests(monkeypatch, store, Settle, slow_settle)
    monkeypatch.setattr(settler, "MAX_UNSETTLED_RUNS", 200)
    monkeypatch.setattr(dispatch, "MAX_BUFFERED_JOBS", 100)
    monkeypatch.setattr(dispatch, "MAX_PREFETCH_JOBS", 20)
    app.handler("quick")(lambda _payload: None).enqueue_many(range(1000))
    assert drain(processes=2, lease=timedelta(seconds=30)) == {"acked": 1000}
    assert most <= 200 + 100 + 2 * (20 + 1)


def test_a_heartbeat_for_more_leases_than_one_call_takes_makes_several_calls(app, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_BATCH_ITEMS", 3)
    app.handler("t")(lambda payload: payload)
    for number in range(7):
        app.client.enqueue(JobRequest(type="t", payload=number))
    reservations = [one for _ in range(3) for one in app.driver.reserve(["default"], limit=3, lease_for=SECOND)]
    lost = []
    heartbeat = Heartbeat(
        app.driver, lease_for=60 * SECOND, on_lost=lambda *one: lost.append(one), on_cancel=lost.append
    )
    runs = [Run(number, one) for number, one in enumerate(reservations)]
    heartbeat.add(runs)
    heartbeat.beat()
    assert len(runs) == 7
    assert not lost
    gained = [
        lease.expires_at - run.reservation.lease.expires_at
        for run, lease in zip(runs, heartbeat.remove(runs), strict=True)
    ]
    assert min(gained) > 50 * SECOND


def test_a_job_that_crashes_too_often_is_counted_as_dead(app, drain):
    app.handler("poison")(hostile_handlers.exits_at_once).enqueue(None)
    assert drain() == {"retried": 2, "dead": 1}


def test_without_queues_a_worker_uses_the_queues_of_the_app(app):
    app.handler("t", queue="elsewhere")(lambda payload: payload).enqueue(1)
    assert app.worker(WorkerOptions(processes=1, until_drained=True)).run() == {"acked": 1}


def test_leases_are_extended_while_a_handler_holds_the_gil_for_three_lease_times(app, drain):
    @app.handler("hold")
    def hold(_payload):
        ctypes.PyDLL(None).usleep(6_000_000)  # PyDLL keeps the GIL
        return os.getpid()

    answer = hold.enqueue()
    assert drain(lease=timedelta(seconds=2)) == {"acked": 1}
    assert ended(app, answer).attempts == 1


def test_a_cancelled_job_is_interrupted_and_counted_as_cancelled(app, drain):
    @app.handler("long")
    def long(_payload):
        time.sleep(60)

    answer = long.enqueue()

    def cancel():
        while app.driver.get(answer.id).state != "inflight":
            time.sleep(0.01)
        app.client.cancel(answer.id)

    threading.Thread(target=cancel).start()
    assert drain() == {"cancelled": 1}
    assert ended(app, answer).state == "cancelled"


def test_a_running_job_that_fails_after_a_cancel_was_requested_is_counted_as_cancelled(app, drain):
    url = app.url

    @app.handler("fails", max_attempts=1)
    def fails(_payload, ctx):
        with connect(url) as store:
            store.do(Cancel(job_ids=[ctx.job.id]))
        try:
            time.sleep(10)  # until the heartbeat has seen the request, and the worker interrupts the handler
        finally:
            raise ValueError("could not stop in order")

    answer = fails.enqueue()
    assert drain(grace=timedelta(seconds=5)) == {"cancelled": 1}
    record = ended(app, answer)
    assert (record.state, record.dead_reason) == ("cancelled", None)


def test_a_lost_lease_interrupts_the_attempt_and_its_settlement_is_refused(app):
    @app.handler("long", max_attempts=1)
    def long(_payload):
        time.sleep(60)

    answer = long.enqueue()
    worker = app.worker(WorkerOptions(lease=timedelta(milliseconds=600), processes=1, until_drained=True, name="w"))

    def steal():
        while app.driver.get(answer.id).state != "inflight":
            time.sleep(0.01)
        app.driver.do(Reap(worker="w"))

    threading.Thread(target=steal).start()
    started = time.monotonic()
    assert worker.run() == {"lost": 1}
    assert time.monotonic() - started < 30
    assert [row.ending for row in app.driver.ledger()] == [Ending.EXPIRED]


def test_a_checkpoint_and_progress_survive_a_retry(app, drain):
    @app.handler("steps", max_attempts=5)
    def steps(_payload, ctx):
        done = ctx.checkpoint or 0
        ctx.progress(done, 4, "steps")
        if done < 3:
            ctx.checkpoint = done + 1
            raise RuntimeError("one step at a time")
        return done

    answer = steps.enqueue()
    drain()
    assert app.client.result(answer.id) == 3
    note = app.driver.do(Inspect(job_ids=[answer.id]))[answer.id].note
    assert b'"message":"steps"' in note.progress


def test_a_resource_is_made_once_per_process_and_closed_with_it(app, drain, tmp_path):
    @app.resource
    def pool():
        class Pool:
            def close(self):
                (tmp_path / f"closed-{os.getpid()}").touch()

        (tmp_path / f"made-{os.getpid()}-{time.monotonic_ns()}").touch()
        return Pool()

    @app.handler("use")
    def use(_payload, ctx):
        assert ctx.resources["pool"]

    app.client.enqueue([use.request() for _ in range(40)])
    assert drain(processes=1) == {"acked": 40}
    assert len(list(tmp_path.glob("made-*"))) == 1
    assert len(list(tmp_path.glob("closed-*"))) == 1


def test_children_are_replaced_after_a_number_of_jobs(app, drain):
    @app.handler("who")
    def who(_payload):
        return os.getpid()

    answers = app.client.enqueue([who.request() for _ in range(60)])
    assert drain(processes=1, recycle_after=10)["acked"] == 60
    assert len({app.client.result(answer.id) for answer in answers}) > 1


def test_a_worker_runs_at_most_max_jobs(app, drain):
    @app.handler("one")
    def one(_payload):
        return None

    app.client.enqueue([one.request() for _ in range(10)])
    assert drain(until_drained=False, max_jobs=3) == {"acked": 3}
    assert app.driver.counts()[0].ready == 7


def test_a_stop_from_another_thread_releases_the_jobs_that_do_not_end_in_time(app):
    @app.handler("long")
    def long(_payload):
        time.sleep(60)

    answers = [long.enqueue() for _ in range(3)]
    worker = app.worker(WorkerOptions(processes=2, drain=timedelta(milliseconds=100), grace=timedelta(seconds=1)))
    thread = threading.Thread(target=worker.run)
    thread.start()
    while sum(app.client.get(answer.id).state == "inflight" for answer in answers) < 2:
        time.sleep(0.01)
    started = time.monotonic()
    worker.stop()
    thread.join(30)
    assert time.monotonic() - started < 20
    records = [app.client.get(answer.id) for answer in answers]
    assert [(record.state, record.attempts) for record in records] == [("ready", 0)] * 3


PROGRAM = """
    import sys, time
    from datetime import timedelta
    from holdfast.app import Holdfast
    from holdfast.worker.options import WorkerOptions

    app = Holdfast(sys.argv[1])

    @app.handler("nap")
    def nap(payload):
        time.sleep(payload)

    options = WorkerOptions(processes=2, drain=timedelta(seconds=float(sys.argv[2])), grace=timedelta(seconds=1))
    app.worker(options).run()
    print("stopped", flush=True)
"""


@pytest.mark.parametrize(
    ("number", "nap", "drain_for", "state"),
    [(signal.SIGTERM, 0.4, 20, "done"), (signal.SIGINT, 0.4, 20, "done"), (signal.SIGTERM, 60, 0.1, "ready")],
)
def test_a_signal_drains_the_worker_and_its_exit_code_is_zero(app, number, nap, drain_for, state):
    answer = app.client.enqueue(JobRequest(type="nap", payload=nap))
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), app.url, str(drain_for)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    while app.client.get(answer.id).state != "inflight":
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "stopped\n")
    record = app.client.get(answer.id)
    assert (record.state, record.attempts) == (state, 1 if state == "done" else 0)


def test_a_killed_worker_leaves_no_children_and_its_jobs_run_again(app, drain):
    @app.handler("nap")
    def nap(_payload):
        return None

    answer = app.client.enqueue(JobRequest(type="nap", payload=30))
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), app.url, "1"]
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL)
    while app.client.get(answer.id).state != "inflight":
        assert process.poll() is None
        time.sleep(0.01)
    while len(children := descendants(process.pid)) < 4:  # two fork servers and two children
        time.sleep(0.01)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(is_alive(pid) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in children if is_alive(pid)]
    app.driver.do(Reap(worker=app.driver.do(Inspect(job_ids=[answer.id]))[answer.id].worker))
    assert drain(retry=QUICK) == {"acked": 1}


def test_a_handler_that_is_stopped_can_clean_up_and_sees_that_it_is_cancelled(app, drain, tmp_path):
    @app.handler("tidy", max_attempts=1, timeout=timedelta(milliseconds=100))
    def tidy(_payload, ctx):
        try:
            time.sleep(60)
        finally:
            (tmp_path / f"cancelled-{ctx.cancelled}").touch()

    tidy.enqueue()
    assert drain(grace=timedelta(seconds=5)) == {"dead": 1}
    assert (tmp_path / "cancelled-True").exists()


def test_reserved_jobs_that_cannot_start_are_released(app):
    """After short jobs the worker buffers many; then one blocks the only child, and the buffer is released."""

    @app.handler("job")
    def job(payload):
        time.sleep(payload)

    app.client.enqueue([job.request(0) for _ in range(200)] + [job.request(20)] + [job.request(0) for _ in range(300)])
    options = WorkerOptions(processes=1, drain=timedelta(0), grace=timedelta(milliseconds=200), name="slow")
    worker = app.worker(options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and (worker.tally.statuses["released"] == 0):
        time.sleep(0.05)
    held = app.driver.counts()[0].inflight
    worker.stop()
    thread.join(30)
    assert worker.tally.statuses["released"] > 0
    assert held < 100


def test_a_handler_that_exceeds_the_memory_limit_fails_its_attempt(app, drain):
    @app.handler("eat", max_attempts=1)
    def eat(payload):
        return len(bytearray(payload))

    answers = [eat.enqueue(1 << 20), eat.enqueue(4 << 30)]
    assert drain(limits=Limits(memory=2 << 30)) == {"acked": 1, "dead": 1}
    assert "MemoryError" in ended(app, answers[1]).last_error


@pytest.mark.linux_only
@pytest.mark.parametrize("handler", hostile_handlers.BUSY_HANDLERS, ids=lambda handler: handler.__name__)
def test_a_handler_that_does_not_stop_is_stopped_when_its_processor_time_is_used_up(app, drain, handler):
    busy = app.handler("busy", max_attempts=1, cpu=timedelta(milliseconds=200))(handler)

    @app.handler("fine")
    def fine(_payload):
        return None

    answer = busy.enqueue()
    app.client.enqueue([fine.request() for _ in range(20)])
    assert drain(processes=1) == {"acked": 20, "dead": 1}
    record = ended(app, answer)
    assert (record.last_error, record.crashes) == ("used up its 200ms of processor time", 0)
    assert [row.detail for row in app.driver.ledger(limit=100) if row.job_id == answer.id] == ["out of cpu"]


@pytest.mark.linux_only
def test_processor_time_is_counted_per_attempt_and_waiting_uses_none(app, drain):
    @app.handler("burn", max_attempts=1)
    def burn(payload):
        until = time.process_time() + payload
        while time.process_time() < until:
            pass

    @app.handler("wait", max_attempts=1)
    def wait(payload):
        time.sleep(payload)

    @app.handler("more", max_attempts=1, cpu=timedelta(minutes=1))
    def more(payload):
        burn(payload)

    app.client.enqueue([*(burn.request(0.1) for _ in range(8)), wait.request(1.0), more.request(0.8)])
    assert drain(processes=1, limits=Limits(cpu=timedelta(seconds=0.5))) == {"acked": 10}


@pytest.mark.linux_only
def test_a_handler_may_clean_up_when_its_processor_time_is_used_up(app, drain, tmp_path):
    @app.handler("tidy", cpu=timedelta(milliseconds=100))
    def tidy(_payload, ctx):
        if ctx.attempt > 1:
            return "enough"
        try:
            hostile_handlers.loops(None)
        finally:
            (tmp_path / "tidied").write_text(str(ctx.cancelled))

    answer = tidy.enqueue()
    assert drain() == {"retried": 1, "acked": 1}
    assert ended(app, answer).result == b'"enough"'
    assert (tmp_path / "tidied").read_text() == "True"


def test_a_child_that_uses_too_much_memory_is_replaced(app, drain):
    @app.handler("grow")
    def grow(payload):
        grown = bytearray(payload << 20)
        grown[::4096] = b"x" * len(grown[::4096])
        return os.getpid()

    answers = [grow.enqueue(size) for size in (0, 200, 0)]
    # A child starts with the size that this process has now; the peak of this process may have been larger.
    now = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    above = now + (100 << 20)
    assert drain(processes=1, recycle_above=above)["acked"] == 3
    first, second, third = (app.client.result(answer.id) for answer in answers)
    assert first == second != third


def test_the_drain_time_does_not_limit_the_last_of_max_jobs(app, drain):
    @app.handler("nap")
    def nap(_payload):
        time.sleep(0.6)

    nap.enqueue()
    assert drain(until_drained=False, max_jobs=1, drain=timedelta(milliseconds=100)) == {"acked": 1}


def test_a_store_that_is_busy_for_a_moment_does_not_end_the_worker(app, drain, monkeypatch):
    @app.handler("one")
    def one(_payload):
        return None

    driver = app.driver
    failing = iter([True, True])

    def busy(original):
        def call(*args, **kwargs):
            if next(failing, False):
                raise StoreBusy(1.0)
            return original(*args, **kwargs)

        return call

    for verb in ("wait", "counts", "reserve"):
        monkeypatch.setattr(driver, verb, busy(getattr(driver, verb)))
    one.enqueue()
    assert drain() == {"acked": 1}


def test_a_store_for_one_process_is_refused(app):
    in_memory = Holdfast("memory://")

    @in_memory.handler("one")
    def one(_payload):
        return None

    with pytest.raises(Unsupported, match="process_once"):
        in_memory.worker().run()


PRINTING = """
    import subprocess, sys, time
    from datetime import timedelta
    from holdfast.app import Holdfast
    from holdfast.worker.options import WorkerOptions

    app = Holdfast(sys.argv[1])

    @app.handler("print")
    def say(payload):
        print("said", payload)

    @app.handler("start")
    def start(payload):
        child = subprocess.Popen(["sleep", "60"])
        child.terminate()
        return child.wait(10)

    @app.handler("leave", max_attempts=1, timeout=timedelta(milliseconds=200))
    def leave(payload):
        child = subprocess.Popen(["sleep", "60"])
        open(payload, "w").write(str(child.pid))
        while True:
            try:
                time.sleep(1)
            except BaseException:
                pass

    print("begun")
    options = WorkerOptions(processes=1, until_drained=True, grace=timedelta(milliseconds=200))
    app.worker(options).run()
"""


def test_handlers_can_print_and_start_processes(app, tmp_path):
    requests = [("print", 1), ("print", 2), ("start", None), ("leave", str(tmp_path / "pid"))]
    answers = [
        app.client.enqueue(JobRequest(type=type_, payload=payload, max_attempts=1)) for type_, payload in requests
    ]
    program = [sys.executable, "-c", textwrap.dedent(PRINTING), app.url]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.splitlines() == ["begun", "said 1", "said 2"]
    assert app.client.result(answers[2].id) == -signal.SIGTERM
    left = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while is_alive(left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(left)


def test_a_worker_trims_old_jobs_but_no_dead_letter(app, drain):
    @app.handler("one", max_attempts=1)
    def one(payload):
        return 1 / payload

    old = SystemClock().now() - 10 * DAY
    with connect(app.url, caller_clock=True) as before:
        before.enqueue([_record(name, old) for name in ("done", "dead")], now=old)
        done, dead = before.reserve(["default"], limit=2, lease_for=SECOND, now=old)
        before.settle([Ack(done.lease), Fail(dead.lease, reason="old")], now=old)
    one.enqueue(1)
    assert drain(WorkerTiming(maintenance=MaintenanceTiming(trim_seconds=0.0))) == {"acked": 1}
    assert app.client.get("done") is None
    assert app.client.get("dead") is not None


def _record(name, created_at):
    return JobRecord(id=name, type="one", queue="default", payload=b"1", created_at=created_at)


@pytest.mark.parametrize("concurrency", [1, 2])
def test_short_jobs_do_not_wait_behind_a_long_one_in_its_process(app, drain, tmp_path, concurrency):
    """Neither the jobs that were sent before the long job was known to be long, nor the later ones."""

    @app.handler("mixed")
    def mixed(payload):
        if payload != "long":
            return
        waited = 0
        while not (tmp_path / "all done").exists() and waited < 1000:  # ten seconds
            waited += 1
            time.sleep(0.01)
        assert waited < 1000, "the short jobs have not ended"

    payloads = ["short"] * 500 + ["long"] * concurrency + ["short"] * 1500

    def watch():
        while app.driver.counts()[0].done < 2000:
            time.sleep(0.05)
        (tmp_path / "all done").touch()

    app.client.enqueue([mixed.request(payload) for payload in payloads])
    watching = threading.Thread(target=watch)
    watching.start()
    tally = drain(processes=2, concurrency=concurrency, lease=timedelta(seconds=15))
    watching.join()
    assert tally["acked"] == len(payloads)
    assert tally["retried"] == 0


def test_a_handler_that_never_ends_is_killed_with_the_fork_server(app, tmp_path):
    @app.handler("endless")
    def endless(_payload):
        (tmp_path / "new").write_text(str(os.getpid()))
        (tmp_path / "new").rename(tmp_path / "pid")
        while True:
            time.sleep(60)

    endless.enqueue()
    pool = ChildPool(app.catalogue, processes=1, grace_seconds=1.0)
    pool.start(lambda _endings, _more_soon: None)
    pool.submit([Run(1, *app.driver.reserve(["default"], limit=1, lease_for=SECOND))])
    while not (tmp_path / "pid").exists():
        time.sleep(0.01)
    os.kill(pool._children.fork_server.pid, signal.SIGKILL)
    status = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    deadline = time.monotonic() + 10
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pool.close()


def test_a_worker_is_made_and_run_with_keywords(app):
    app.handler("one")(lambda payload: payload).enqueue_many(range(5))
    worker = app.worker(processes=1)
    assert worker.run(max_jobs=2) == {"acked": 2}
    assert app.worker(processes=1).run(until_drained=True) == {"acked": 3}
    stop = threading.Event()
    stop.set()
    assert app.worker(processes=1).run(stop) == {}


def test_each_run_of_a_worker_has_its_own_numbers(app):
    count = app.handler("t")(lambda payload: payload)
    count.enqueue_many(range(4))
    worker = app.worker(processes=1)
    assert [worker.run(max_jobs=1) for _ in range(2)] == [{"acked": 1}, {"acked": 1}]
    assert [worker.run(until_drained=True) for _ in range(2)] == [{"acked": 2}, {}]


def test_a_limit_of_processor_time_is_refused_where_nobody_can_measure_it(app, monkeypatch):
    monkeypatch.setattr(linux, "IS_LINUX", False)
    app.handler("busy", cpu=timedelta(seconds=1))(lambda _payload: None)
    with pytest.raises(InvalidInput, match="only Linux tells the processor time"):
        app.worker().run()
