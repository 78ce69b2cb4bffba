"""Handlers that make their child process send what the worker cannot use: only their own attempt is hurt."""

import ctypes
import logging
import os
import random
import signal
import stat
import struct
import threading
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast.worker.control import Retry, Snooze, Unrecoverable
from holdfast.worker.processes import protocol
from tests.worker.conftest import ended

pytestmark = pytest.mark.timeout(120)
HEALTHY_JOBS = 100
CHECKPOINT_CHARACTERS = 60_000
REPORTS_PER_THREAD = 40


@pytest.fixture
def healthy(app):
    """Return a function that checks that all healthy jobs beside the hostile ones were done in one attempt."""

    @app.handler("healthy", max_attempts=1)
    def work(payload):
        return payload

    answers = work.enqueue_many(range(HEALTHY_JOBS))

    def check():
        assert [app.client.result(answer.id) for answer in answers] == list(range(HEALTHY_JOBS))

    return check


def report_pipe(worker_pid):
    """Return the descriptor of the pipe from this process to the worker: the one that the worker reads."""
    read_by_worker = {pipe_of(path, os.O_RDONLY) for path in Path(f"/proc/{worker_pid}/fd").iterdir()} - {None}
    [found] = {
        int(path.name) for path in Path("/proc/self/fd").iterdir() if pipe_of(path, os.O_WRONLY) in read_by_worker
    }
    return found


def pipe_of(path, mode):
    """Return which pipe an open descriptor is; None if it is none, or is open in another mode."""
    try:
        if not stat.S_ISFIFO(path.stat().st_mode):
            return None
        info, pipe = (path.parent.parent / "fdinfo" / path.name).read_text(), path.readlink()
    except FileNotFoundError:  # closed meanwhile: the descriptor that lists the folder, for example
        return None
    flags = int(next(line.split()[1] for line in info.splitlines() if line.startswith("flags:")), 8)
    return pipe if flags & os.O_ACCMODE == mode else None


# Texts ------------------------------------------------------------------------------------------------------


class Unprintable(BaseException):
    def __str__(self):
        raise RuntimeError("no text")


class UnprintableValue:
    def __str__(self):
        raise RuntimeError("no text")


def changed(control, **attributes):
    for name, value in attributes.items():
        setattr(control, name, value)
    return control


CONTROL_VALUES = {
    "a number as the reason": (lambda: Unrecoverable(404), "404"),
    "a surrogate as the reason": (lambda: Unrecoverable("\ud800"), "\\ud800"),
    "an exception as the reason": (lambda: Unrecoverable(ValueError("bad")), "ValueError: bad"),
    "a value without a text": (lambda: Unrecoverable(UnprintableValue()), "UnprintableValue"),
    "a reason that was replaced": (lambda: changed(Unrecoverable("x"), reason=[1, 2]), "[1, 2]"),
    "a retry with a number": (lambda: Retry(reason=503), "503"),
    "a retry with an exception": (lambda: Retry(reason=KeyError("k")), "KeyError: 'k'"),
    "a retry with a surrogate": (lambda: Retry(reason="\udcff"), "\\udcff"),
    "a retry with NUL": (lambda: Retry(reason="a\0b"), "a\\x00b"),
    "a retry of megabytes": (lambda: Retry(reason="x" * 5_000_000), "characters"),
    "a retry whose delay was replaced": (lambda: changed(Retry(), after=timedelta(1)), "after: wanted"),
    "a snooze whose delay was replaced": (lambda: changed(Snooze(timedelta(1)), delay="soon"), "delay: wanted"),
    "an exception without a text": (Unprintable, "Unprintable"),
    "an exception with a surrogate": (lambda: SystemExit("\ud800"), "\\ud800"),
    "a syntax error with a bad place": (lambda: SyntaxError("bad", ("f", "one", object(), 3)), "SyntaxError"),
}


def test_any_text_of_a_handler_reaches_the_store_in_a_form_that_can_be_read(app, drain, healthy):
    @app.handler("control", max_attempts=1)
    def control(payload):
        make_control, _ = CONTROL_VALUES[payload]
        raise make_control()

    answers = {name: control.enqueue(name) for name in CONTROL_VALUES}
    drain()
    for name, answer in answers.items():
        record = ended(app, answer)
        assert (record.state, record.crashes) == ("dead", 0), (name, record)
        assert CONTROL_VALUES[name][1] in f"{record.dead_reason}\n{record.last_error}", (name, record)
    healthy()


def test_a_snooze_with_any_reason_is_a_snooze(app, drain, healthy):
    @app.handler("snooze")
    def snooze(_payload, ctx):
        if ctx.checkpoint is None:
            ctx.checkpoint = 1
            return Snooze(timedelta(milliseconds=1), reason=OSError("\udc80"))
        return ctx.attempt

    answer = snooze.enqueue()
    drain()
    assert app.client.result(answer.id) == 1
    healthy()


# Bytes ------------------------------------------------------------------------------------------------------


def frame(*messages):
    return protocol.pack([*messages])


def raw_frame(body):
    """Return a frame with a right header, whatever is in it."""
    empty = protocol.pack([])
    header = empty[: -len(msgspec.msgpack.encode([]))]
    return header[:-4] + struct.pack(">I", len(body)) + body


UNKNOWN_RUN = 1 << 40
BAD_BYTES = {
    "one byte": b"\x01",
    "three bytes": b"\x00\x00\x10",
    "text": b"hello, worker\n" * 1000,
    "zeros": bytes(100_000),
    "an absurd length": frame()[:-5] + b"\xff\xff\xff\xff" + b"\x90",
    "not MessagePack": raw_frame(b"\xc1" * 40),
    "not a list": raw_frame(msgspec.msgpack.encode(7)),
    "an empty frame": raw_frame(b""),
    "an unknown tag": raw_frame(msgspec.msgpack.encode([[99, 1]])),
    "too few fields": raw_frame(msgspec.msgpack.encode([[5]])),
    "a wrong type": raw_frame(msgspec.msgpack.encode([[8, "run", 1, 2]])),
    "text that is not UTF-8": raw_frame(b"\x91\x93\x08\x01\xa2\xff\xfe"),
    "endless nesting": raw_frame(b"\x91\x94\x09\x01\x02" + b"\x91" * 100_000),
    "a message of the worker": frame(protocol.Stop()),
    "a start of an unknown run": frame(protocol.RunStarted(UNKNOWN_RUN, 1)),
    "a note of an unknown run": frame(protocol.RunNote(UNKNOWN_RUN, b"1")),
    "an answer of an unknown run": frame(protocol.RunSucceeded(UNKNOWN_RUN)),
    "a return of an unknown run": frame(protocol.RunReturned(UNKNOWN_RUN)),
    "a negative delay": frame(protocol.RunEnded(1, kind="retry", after=-1)),
    "a year that no store knows": frame(protocol.RunStarted(1, 2**63)),
    "an endless duration": frame(protocol.RunSucceeded(1, None, float("nan"))),
    "a checkpoint of a megabyte": frame(protocol.RunNote(1, None, b"1" * (1 << 20))),
}


def random_cases(count):
    """Yield random bytes, and frames that are cut off or changed at random."""
    generator = random.Random(13)
    frames = [frame(protocol.RunSucceeded(1, b"[1]", 0.5)), frame(protocol.RunEnded(1, kind="failed", error="e" * 50))]
    for _ in range(count):
        mutated = bytearray(generator.choice(frames))
        mutated[generator.randrange(4)] ^= 1 << generator.randrange(8)
        yield generator.choice([generator.randbytes(generator.randrange(1, 300)), bytes(mutated)])


def test_bytes_that_the_worker_cannot_read_crash_only_the_child_that_sent_them(app, drain, healthy, caplog):
    worker_pid = os.getpid()

    @app.handler("garbage", max_attempts=1)
    def garbage(payload):
        os.write(report_pipe(worker_pid), cases[payload])

    cases = BAD_BYTES | {f"random {number}": data for number, data in enumerate(random_cases(10))}
    answers = {name: garbage.enqueue(name) for name in cases}
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        drain()
    for name, answer in answers.items():
        record = ended(app, answer)
        assert (record.state, record.crashes) == ("dead", 1), (name, record)
        assert "sent what cannot be read" in record.last_error, (name, record)
    healthy()
    events = Counter(record.event for record in caplog.records)
    assert events["child.unreadable"] == events["child.replaced"] == events["job.crashed"] == len(cases)


def test_a_frame_that_is_cut_off_by_the_end_of_its_child_is_a_crash_of_that_child(app, drain, healthy):
    worker_pid = os.getpid()

    @app.handler("cut", max_attempts=1)
    def cut(_payload):
        os.write(report_pipe(worker_pid), frame(protocol.RunSucceeded(1, b"1" * 1000))[:500])
        os._exit(3)

    answer = cut.enqueue()
    drain()
    assert "exit code 3" in ended(app, answer).last_error
    healthy()


def test_a_second_answer_for_an_attempt_is_ignored_and_logged(app, drain, caplog):
    worker_pid = os.getpid()

    @app.handler("twice", max_attempts=1)
    def twice(payload):
        os.write(report_pipe(worker_pid), frame(protocol.RunSucceeded(payload, b'"first"')))
        return "second"

    answers = twice.enqueue_many(range(1, 4))  # the numbers of their runs
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        assert drain(processes=1) == {"acked": 3}
    assert [app.client.result(answer.id) for answer in answers] == ["first"] * 3
    logged = [(record.event, record.run, record.kind) for record in caplog.records]
    assert logged == [("child.late_message", run, "RunSucceeded") for run in (1, 2, 3)]


@pytest.mark.parametrize(
    "message",
    [protocol.RunSucceeded(2), protocol.RunNote(2, b"1"), protocol.RunStarted(1, 1), protocol.RunReturned(1)],
    ids=["the answer of another", "the note of another", "a second start", "the return of one that has begun"],
)
def test_a_message_that_does_not_fit_the_state_of_its_run_is_a_crash_of_the_child(app, drain, message):
    """Else a job could be done whose handler was never called, or never time out."""
    worker_pid = os.getpid()

    @app.handler("forge", max_attempts=2)
    def forge(payload, ctx):
        if payload == 0 and ctx.attempt == 1:
            os.write(report_pipe(worker_pid), frame(message))
        return ctx.attempt

    answers = forge.enqueue_many(range(20))
    drain(processes=1)
    assert [app.client.result(answer.id) for answer in answers] == [2] + [1] * 19


# Forks ------------------------------------------------------------------------------------------------------


def c_fork():
    return ctypes.CDLL(None).fork()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    ("fork", "concurrency"), [(os.fork, 1), (os.fork, 3), (c_fork, 1)], ids=["os.fork", "in a thread", "fork of C"]
)
@pytest.mark.parametrize("ending", ["returns", "raises", "reports", "exits"])
def test_a_forked_process_that_leaves_the_handler_is_no_second_answer(app, drain, fork, concurrency, ending):
    @app.handler("fork", max_attempts=1)
    def forks(_payload, ctx):
        pid = fork()
        if pid:
            time.sleep(0.01)
            _, status = os.waitpid(pid, 0)
            return os.waitstatus_to_exitcode(status)
        if ending == "raises":
            raise ValueError("in the forked process")
        if ending == "reports":
            ctx.progress(1)
        if ending == "exits":
            raise SystemExit
        return None

    answers = [forks.enqueue() for _ in range(5)]
    drain(concurrency=concurrency)
    assert [app.client.result(answer.id) for answer in answers] == [1] * 5


# Threads and signals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [1, 3])
def test_the_threads_of_a_handler_may_report_at_the_same_time(app, drain, healthy, concurrency):
    @app.handler("threads", max_attempts=1)
    def threads(payload, ctx):
        def report(letter):
            for number in range(REPORTS_PER_THREAD):
                ctx.checkpoint = letter * CHECKPOINT_CHARACTERS
                ctx.progress(number, REPORTS_PER_THREAD)

        helpers = [threading.Thread(target=report, args=(letter,)) for letter in "abcd"]
        for helper in helpers:
            helper.start()
        report("e")
        for helper in helpers:
            helper.join()
        return payload

    answers = threads.enqueue_many(range(3))
    drain(concurrency=concurrency)
    assert [app.client.result(answer.id) for answer in answers] == [0, 1, 2]
    healthy()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_report_after_the_attempt_has_ended_is_refused_in_its_thread(app, drain, healthy, tmp_path, concurrency):
    refused = tmp_path / "refused"

    @app.handler("late", max_attempts=1)
    def late(payload, ctx):
        def report():
            try:
                while True:  # until the handler has returned
                    ctx.progress(1)
                    ctx.checkpoint = "x" * 5000
            except Exception as error:
                with refused.open("a") as file:
                    file.write(f"{error}\n")
                raise

        threading.Thread(target=report, daemon=True).start()
        return payload

    @app.handler("wait", max_attempts=1)
    def wait(_payload):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (refused.exists() and refused.read_text().count("\n") == 5):
            time.sleep(0.01)

    answers = late.enqueue_many(range(5))
    for answer in answers:
        wait_job = wait.enqueue() if answer is answers[-1] else None
    drain(processes=1, concurrency=concurrency)
    assert [app.client.result(answer.id) for answer in answers] == list(range(5))
    assert ended(app, wait_job).state == "done"
    assert refused.read_text().count("has ended") == 5
    healthy()


class AlarmError(Exception):
    pass


def test_a_signal_in_the_middle_of_a_frame_does_not_corrupt_it(app, drain, healthy):
    """A handler that bounds its own steps by a timer is interrupted in any place, and goes on."""

    @app.handler("timer", max_attempts=1)
    def timer(_payload, ctx):
        def ring(_number, _frame):
            raise AlarmError

        rung = 0
        before = signal.signal(signal.SIGALRM, ring)
        deadline = time.monotonic() + 60
        try:
            while rung < 100 and time.monotonic() < deadline:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.002)  # once
                    while True:
                        ctx.checkpoint = "x" * CHECKPOINT_CHARACTERS
                except AlarmError:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    rung += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        return rung

    answer = timer.enqueue()
    drain()
    assert app.client.result(answer.id) == 100
    healthy()


@pytest.mark.parametrize("concurrency", [1, 3])
def test_an_attempt_that_is_stopped_in_the_middle_of_a_frame_corrupts_nothing(app, drain, concurrency):
    @app.handler("busy", max_attempts=1, timeout=timedelta(milliseconds=20))
    def busy(_payload, ctx):
        while True:
            ctx.checkpoint = "x" * CHECKPOINT_CHARACTERS

    answers = [busy.enqueue() for _ in range(20)]
    drain(concurrency=concurrency, grace=timedelta(seconds=30))
    for answer in answers:
        record = ended(app, answer)
        assert (record.crashes, record.last_error) == (0, "timed out after 20ms")
