import os
import threading

import pytest

from holdfast.worker.processes.protocol import ProtocolError
from holdfast.worker.processes.tickets import IssuedTickets, Tickets


@pytest.fixture
def pipe():
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


@pytest.fixture
def issued(pipe):
    made = IssuedTickets(*pipe)
    yield made
    made.close()


@pytest.fixture
def tickets(pipe):
    return Tickets(pipe[0])


def test_a_ticket_is_claimed_or_withdrawn(issued, tickets):
    assert issued.issue(range(5)) == 5
    assert tickets.claim(0)
    assert issued.withdraw() == [1, 2, 3, 4]
    assert not tickets.claim(1)
    assert issued.issue([5, 6]) == 2
    assert not tickets.claim(2)  # reads the ticket of 5, and keeps it
    assert issued.withdraw() == [6]
    assert [tickets.claim(number) for number in (3, 4, 5, 6)] == [False, False, True, False]


def test_every_ticket_goes_to_one_of_two_readers_that_race(issued, tickets):
    count, claimed, withdrawn = 20_000, [], []
    last_is_claimed_or_gone = threading.Event()

    def withdraw():
        while not last_is_claimed_or_gone.is_set():
            withdrawn.extend(issued.withdraw())

    def claim():
        for number in range(count):
            while not is_issued[number // 100].is_set():
                pass
            if tickets.claim(number):
                claimed.append(number)
        last_is_claimed_or_gone.set()

    is_issued = [threading.Event() for _ in range(count // 100)]
    threads = [threading.Thread(target=target) for target in (withdraw, claim)]
    for thread in threads:
        thread.start()
    for block, event in enumerate(is_issued):
        numbers = range(100 * block, 100 * (block + 1))
        while numbers:
            numbers = numbers[issued.issue(numbers) :]
        event.set()
    for thread in threads:
        thread.join(60)
    assert sorted(claimed + withdrawn) == list(range(count))


def test_tickets_that_do_not_fit_into_the_pipe_are_not_issued(issued, tickets):
    fitting = issued.issue(range(100_000))
    assert 0 < fitting < 100_000
    assert issued.issue([fitting]) == 0
    assert issued.withdraw() == list(range(fitting))
    assert issued.issue([fitting]) == 1
    assert tickets.claim(fitting)


def test_bytes_that_are_no_ticket_are_refused_by_both_readers(pipe, issued, tickets):
    issued.issue([1, 2])
    os.read(pipe[0], 3)  # as a handler may do
    with pytest.raises(ProtocolError, match="wanted a ticket"):
        tickets.claim(1)
    with pytest.raises(ProtocolError, match="wanted a ticket"):
        issued.withdraw()


def test_nothing_is_claimed_once_the_worker_is_gone(pipe):
    reader = os.dup(pipe[0])
    IssuedTickets(*pipe).close()
    assert not Tickets(reader).claim(0)
    os.close(reader)
