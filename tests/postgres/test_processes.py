"""Many processes on one database: no errors, no job lost or run twice, also when processes are killed or fork."""

import os
import resource
from contextlib import ExitStack
from pathlib import Path

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.settlement import Ack
from tests.sqlite.test_processes import run_processes


def test_eight_processes_share_one_database_without_an_error(url):
    run_processes(url, producers=3, consumers=5, jobs=400)


def test_killed_consumers_lose_no_job_and_repeat_none(url):
    run_processes(url, producers=2, consumers=3, jobs=400, kills=6)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own_connections(url, job):
    store = holdfast.connect(url)
    store.enqueue([job(), job()])
    [of_parent] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
    child = os.fork()
    if child == 0:
        is_settled = False
        try:
            [of_child] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
            store.wait(["q"], timeout=0.01)
            is_settled = store.settle([Ack(of_child.lease)]) == [None]
            store.close()
        finally:
            os._exit(0 if is_settled else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.settle([Ack(of_parent.lease)]) == [None]
    assert store.counts()[0].done == 2
    store.close()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_idle_connection_before_its_first_call(url, job):
    """If the first call left them, another thread of the child could meanwhile use a connection of the parent."""
    with holdfast.connect(url) as store:
        store.enqueue([job()])
        pool = store.engine._database.pool
        assert len(pool._idle) == 1
        child = os.fork()
        if child == 0:
            os._exit(len(pool._idle))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.counts()[0].ready == 1


def test_a_connection_is_used_again_in_a_process_with_many_open_files(url, job):
    """A service with a thousand clients has connections to the database whose descriptors are above 1024."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, limits[1]), limits[1]))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while (descriptor := os.open(os.devnull, os.O_RDONLY)) <= 1024:
            stack.callback(os.close, descriptor)
        stack.callback(os.close, descriptor)
        store = stack.enter_context(holdfast.connect(url))
        store.enqueue([job()])
        [connection] = store.engine._database.pool._idle
        assert store.counts()[0].ready == 1
        assert store.engine._database.pool._idle == [connection]


def open_sockets() -> set[str]:
    targets = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.exists()]
    return {str(target) for target in targets if str(target).startswith("socket")}


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the /proc of Linux")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_socket_of_its_parent(url, job):
    before = open_sockets()
    store = holdfast.connect(url)
    store.enqueue([job()])
    store.wait(["elsewhere"], timeout=0.5)  # starts the listener
    assert len(open_sockets() - before) > 1
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if open_sockets() <= before and store.counts()[0].ready == 1 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.counts()[0].ready == 1
    store.close()
