"""A child with several threads, seen from the other end of its sockets: which runs it starts, and which it returns."""

import math
import os
import select
import signal
import socket
import threading

import pytest

from holdfast.model.job import JobRecord
from holdfast.wire.job_message import payload_message
from holdfast.worker.catalogue import Catalogue, make_handler
from holdfast.worker.limits import RecycleLimits
from holdfast.worker.processes import protocol
from holdfast.worker.processes.child import INTERRUPT_SIGNAL
from holdfast.worker.processes.forkserver_process import ChildEnds
from holdfast.worker.processes.protocol import RunJob, RunReturned, RunStarted, RunSucceeded, Stop
from holdfast.worker.processes.shared_deadline import SharedDeadline
from holdfast.worker.processes.threaded_child import ThreadedChild
from holdfast.worker.processes.tickets import IssuedTickets
from tests.in_memory import InMemory

MAX_WAIT_SECONDS = 30.0  # after which a test has failed


class Conversation:
    """A child with one thread, whose jobs end when ``may_end`` is set, and the worker's ends of its sockets."""

    def __init__(self):
        self.may_end = threading.Event()
        self._work, work = socket.socketpair()
        self._interrupts, interrupts = socket.socketpair()
        self._reports, reports = os.pipe()
        tickets_end, tickets_write = os.pipe()
        for descriptor in (tickets_end, tickets_write):
            os.set_blocking(descriptor, False)
        self.tickets = IssuedTickets(tickets_end, tickets_write)
        self._received = []
        self._unpacker = protocol.Unpacker(protocol.decode_child_messages)
        catalogue = Catalogue()
        catalogue.add(make_handler("t", lambda _payload: self.may_end.wait(MAX_WAIT_SECONDS)))
        ends = ChildEnds(work, interrupts, reports, tickets_end)
        child = ThreadedChild(
            catalogue, ends, RecycleLimits(), deadline=SharedDeadline(), leftovers=None, concurrency=1
        )
        self._sockets = (self._work, work, self._interrupts, interrupts)
        self._thread = threading.Thread(target=child.run)
        self._thread.start()

    def send(self, *messages):
        self.tickets.issue([message.run for message in messages if isinstance(message, RunJob)])
        self._work.sendall(protocol.pack(messages))

    def receive(self):
        """Return the next message of the child."""
        while not self._received:
            assert select.select([self._reports], [], [], MAX_WAIT_SECONDS)[0], "wanted a message"
            self._received += self._unpacker.feed(os.read(self._reports, protocol.READ_BYTES))
        return self._received.pop(0)

    def close(self):
        self.may_end.set()
        self.send(Stop())
        self._thread.join(MAX_WAIT_SECONDS)
        assert not self._thread.is_alive()
        for one in self._sockets:
            one.close()
        os.close(self._reports)
        self.tickets.close()


@pytest.fixture
def child():
    before = signal.getsignal(INTERRUPT_SIGNAL)
    child = Conversation()
    yield child
    child.close()
    signal.signal(INTERRUPT_SIGNAL, before)


@pytest.fixture
def run_job():
    """A factory of messages that run a job."""
    with InMemory() as store:
        store.enqueue([JobRecord(id="j", type="t", queue="q", payload=b"null", created_at=1)])
        [reservation] = store.reserve(["q"], limit=1, lease_for=1)
    return lambda run, lease_deadline=math.inf: RunJob(run, payload_message(reservation), lease_deadline)


def test_a_run_whose_lease_deadline_has_passed_is_returned_and_not_started(child, run_job):
    child.send(run_job(1, lease_deadline=0.0), run_job(2))
    assert child.receive() == RunReturned(1)
    started = child.receive()
    assert (type(started), started.run) == (RunStarted, 2)


def test_a_run_that_was_withdrawn_is_returned_and_not_started(child, run_job):
    child.send(run_job(1), run_job(2), run_job(3))
    started = child.receive()
    assert (type(started), started.run) == (RunStarted, 1)
    assert child.tickets.withdraw() == [2, 3]
    child.may_end.set()
    ended = child.receive()
    assert (type(ended), ended.run) == (RunSucceeded, 1)
    assert [child.receive(), child.receive()] == [RunReturned(2), RunReturned(3)]
    child.send(run_job(4))
    assert child.receive().run == 4
