"""Many processes, one database: no errors, nothing lost, nothing twice; also when they are killed, or fork."""

import os

import pytest

import holdfast
from holdfast.clock import SECOND
from holdfast.model.settlement import Ack
from tests.sqlite.test_processes import run_processes


def test_eight_processes_fight_over_one_database_without_an_error(url):
    run_processes(url, producers=3, consumers=5, jobs=400)


def test_killed_consumers_lose_and_repeat_nothing(url):
    run_processes(url, producers=2, consumers=3, jobs=400, kills=6)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_connections_of_its_own(url, job):
    store = holdfast.connect(url)
    store.enqueue([job(), job()])
    [mine] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
    child = os.fork()
    if child == 0:
        done = False
        try:
            [its] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
            store.wait(["q"], timeout=0.01)
            done = store.settle([Ack(its.lease)]) == [None]
            store.close()
        finally:
            os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.settle([Ack(mine.lease)]) == [None]
    assert store.counts()[0].done == 2
    store.close()
