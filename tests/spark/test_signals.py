"""Signals while slots run: the first one drains, the second one does not wait. Real signals, in a real terminal."""

import contextlib
import os
import re
import signal
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

import holdfast
from holdfast.drivers.requests import Scan
from holdfast.model.job import State
from holdfast.spark import run_queue
from holdfast.spark.execution.run_spec import RUN_KIND
from holdfast.spark.execution.stop_signals import SIGNALS, StopSignals
from tests.spark.clusters import PROGRAMS, settings
from tests.spark.conftest import OPTIONS
from tests.spark.terminals import TIMEOUT_SECONDS, Terminal

pytestmark = pytest.mark.timeout(1200)  # each test starts a Spark application
ROOT = PROGRAMS.parents[2]
NOISE = re.compile(r"Traceback|\tat |py4j|java\.|Exception|ERROR")  # of Python and of Java
WORK = ("-m", "holdfast", "spark", "work", "patient:app", "--slots", "2", "--lease", "15s", "--drain", "forever")


@pytest.fixture
def store(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with holdfast.connect(url) as opened:
        opened.address = url
        yield opened


def state(store, answer):
    record = holdfast.Client(store).get(answer.id)
    return record.state, record.attempts


def inflight(store, queue):
    return sum(count.inflight for count in store.counts([queue]))


def stop_orders(store):
    return len(store.do(Scan(kind=RUN_KIND, limit=10)))


def variables(store):
    return {"HOLDFAST_URL": store.address, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def test_signals_are_counted_and_the_handlers_of_the_user_are_restored():
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, ignored)
    assert (signals.count, signals.cause) == (2, "SIGTERM")  # the ignored signal stays ignored
    assert received == [signal.SIGTERM]


def test_a_run_in_another_thread_leaves_the_handlers_alone(spark, app):
    handle = app.handler("t")(lambda payload: payload)
    answer = handle.enqueue(1)
    before = [signal.getsignal(number) for number in SIGNALS]
    during = []

    def run():
        run_queue(app, spark=spark, slots=1, options=OPTIONS, on_progress=lambda _: during.append(handlers()))

    def handlers():
        return [signal.getsignal(number) for number in SIGNALS]

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    assert app.client.get(answer.id).state is State.DONE
    assert during
    assert all(handlers == before for handlers in during)


def test_a_slot_that_does_not_end_is_cancelled_by_the_third_signal(spark, app):
    @app.handler("stuck")
    def stuck(_):
        while True:
            with contextlib.suppress(BaseException):  # of the interrupt
                time.sleep(600)

    answer = stuck.enqueue(None)
    sent = []

    def send(progress):
        if progress.busy and len(sent) < 3:
            os.kill(os.getpid(), signal.SIGINT)
            sent.append(progress)

    options = replace(OPTIONS, drain=None, grace=timedelta(minutes=5))
    with pytest.raises(KeyboardInterrupt, match="stopped by SIGINT: nothing done; some slots did not end in time"):
        run_queue(app, spark=spark, slots=1, options=options, on_progress=send)
    assert app.client.get(answer.id).state is State.INFLIGHT


def test_ctrl_c_on_the_command_drains_and_a_second_one_does_not_wait(store, tmp_path):
    client = holdfast.Client(store)
    finish, never = tmp_path / "finish", tmp_path / "never"
    finished, stuck = client.enqueue(
        [holdfast.JobRequest(type="wait", queue="waiting", payload=str(path)) for path in (finish, never)]
    )
    with Terminal(*WORK, *settings(), folder=PROGRAMS, **variables(store)) as work:
        work.until(lambda: inflight(store, "waiting") == 2)
        work.press_ctrl_c()
        work.until(lambda: stop_orders(store))
        finish.touch()
        work.until(lambda: state(store, finished) == (State.DONE, 1))
        assert state(store, stuck) == (State.INFLIGHT, 1)
        work.press_ctrl_c()
        assert work.exit_code() == 0, work.text
    assert state(store, stuck) == (State.READY, 0)
    assert work.text.splitlines()[-1] == "1 acked, 1 released"
    assert not NOISE.search(work.text), work.text


def test_signals_stop_a_run_and_the_handlers_of_the_user_are_restored(store, tmp_path):
    with Terminal(PROGRAMS / "interrupted.py", store.address, tmp_path, folder=ROOT, **variables(store)) as program:
        program.until(lambda: inflight(store, "run:first"))
        program.press_ctrl_c()
        program.until(lambda: stop_orders(store) == 1)
        (tmp_path / "first").touch()
        program.until(lambda: inflight(store, "run:second"))
        program.signal(signal.SIGTERM)
        program.until(lambda: stop_orders(store) == 2)
        program.signal(signal.SIGTERM)
        program.until(lambda: inflight(store, "run:third"))
        program.signal_group(signal.SIGTERM)  # the JVM gets it too
        program.until(lambda: stop_orders(store) == 3)
        (tmp_path / "third").touch()
        assert program.exit_code() == 128 + signal.SIGTERM, program.text
    text = program.text
    assert "first KeyboardInterrupt stopped by SIGINT: 1 acked\n" in text
    assert "holdfast: stopped by SIGTERM: 1 released\nsecond SystemExit 143\nrestored True\n" in text
    assert text.endswith("holdfast: stopped by SIGTERM: 1 acked\n"), text
    assert not NOISE.search(text), text
    counts = {count.queue: (count.ready, count.inflight, count.done) for count in store.counts()}
    assert counts == {"run:first": (0, 0, 1), "run:second": (1, 0, 0), "run:third": (0, 0, 1)}
