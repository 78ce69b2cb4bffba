"""Handlers that use up the file descriptors, the memory or the threads of their process: no other job pays for it."""

import logging
import mmap
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.worker.limits import MEBIBYTE, Limits
from tests.processes import PAGE_BYTES
from tests.worker.conftest import ended

FILES = Limits(files=64)
KEPT = []  # what handlers leak, in each child


def leak_files(_payload):
    KEPT.extend(Path("/dev/null").open() for _ in range(9))  # noqa: SIM115 - never closed


def use_files(_payload):
    opened = [Path("/dev/null").open() for _ in range(20)]  # noqa: SIM115
    for file in opened:
        file.close()


def records(caplog, event):
    return [record for record in caplog.records if record.event == event]


@pytest.fixture
def log(caplog):
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        yield caplog


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_healthy_job_is_dead_by_leaked_file_descriptors(app, drain, log, concurrency):
    leak = app.handler("leak", max_attempts=1)(leak_files)
    healthy = app.handler("healthy", max_attempts=1)(use_files)
    requests = [request for _ in range(25) for request in (leak.request(), healthy.request(), healthy.request())]
    answers = app.client.enqueue(requests)
    drain(limits=FILES, concurrency=concurrency)
    assert {(ended(app, one).state, ended(app, one).attempts) for one in answers} == {("done", 1)}
    assert {one.reason.partition(": ")[0] for one in records(log, "child.replaced")} == {"damaged"}


def test_a_job_that_needs_too_many_files_itself_fails_by_itself(app, drain, log):
    @app.handler("hungry", max_attempts=2)
    def hungry(_payload):
        leak_files(None)
        KEPT.extend(Path("/dev/null").open() for _ in range(100))  # noqa: SIM115

    healthy = app.handler("healthy", max_attempts=1)(use_files)
    healthy_answers = app.client.enqueue([healthy.request() for _ in range(20)])
    answer = hungry.enqueue()
    healthy_answers += app.client.enqueue([healthy.request() for _ in range(20)])
    drain(limits=FILES)
    found = ended(app, answer)
    assert (found.dead_reason, found.attempts) == ("attempts exhausted", 2)
    assert "Too many open files" in found.last_error
    assert {(ended(app, one).state, ended(app, one).attempts) for one in healthy_answers} == {("done", 1)}
    begun_again = records(log, "job.begun_again")
    assert {one.type for one in begun_again} == {"hungry"}
    assert 1 <= len(begun_again) <= 6


def leak_memory(_payload):
    KEPT.append(mmap.mmap(-1, 40 * MEBIBYTE))  # address space: no page of it is touched


def use_memory(_payload):
    bytearray(48 * MEBIBYTE)


def leak_threads(_payload):
    for _ in range(8):  # many: a forked process first uses the stacks that the threads of its parent have left in it
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def use_threads(_payload):
    threads = [threading.Thread(target=time.sleep, args=(0.001,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("leaks", "uses"), [(leak_memory, use_memory), (leak_threads, use_threads)], ids=["memory", "threads"]
)
def test_no_healthy_job_is_dead_by_memory_or_threads_that_others_use(app, drain, log, leaks, uses):
    leak = app.handler("leak", max_attempts=1)(leaks)
    healthy = app.handler("healthy", max_attempts=1)(uses)
    requests = [request for _ in range(12) for request in (leak.request(), leak.request(), healthy.request())]
    answers = app.client.enqueue(requests)
    pages = int(Path("/proc/self/statm").read_text().split()[0])  # this process, which is forked
    drain(limits=Limits(memory=pages * PAGE_BYTES + 128 * MEBIBYTE), processes=1, grace=timedelta(seconds=5))
    assert {(ended(app, one).state, ended(app, one).attempts) for one in answers} == {("done", 1)}
    assert {one.reason.partition(": ")[0] for one in records(log, "child.replaced")} == {"damaged"}


def test_a_full_disk_is_no_damage(app, drain, log):
    @app.handler("full", max_attempts=1)
    def full(_payload):
        with Path("/dev/full").open("w") as file:
            file.write("x")

    answer = full.enqueue()
    drain()
    assert "No space left" in ended(app, answer).last_error
    assert not records(log, "child.replaced")
