"""Messages between worker and child: every outcome of a handler survives, in pieces of any size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.wire.job_message import job_message, payload_message
from holdfast.worker import protocol
from holdfast.worker.outcome import (
    BadPayload,
    Cancelled,
    Failed,
    Interrupted,
    RetryAsked,
    Snoozed,
    Succeeded,
    UnknownType,
    Unrecovered,
)

JOB = JobRecord(id="j", type="t", queue="q", payload=b'{"a":1}', created_at=7, attempts=1, meta={"m": 1})
RESERVATION = Reservation(job=JOB, lease=Lease(job_id="j", token="7.secret", fence=7, expires_at=9))
OUTCOMES = [
    Succeeded(),
    Succeeded(result=b"[1]"),
    Failed(error="ValueError: 1", kind="ValueError"),
    Unrecovered(reason="never", error="KeyError: 2"),
    RetryAsked(after=5, error="later"),
    RetryAsked(error="later"),
    Snoozed(delay=3, budget=9, reason="locked"),
    BadPayload(error="payload: wanted"),
    UnknownType(),
]
MESSAGES: list[protocol.Message] = [
    protocol.RunJob(1, job_message(RESERVATION)),
    protocol.RunJob(2, payload_message(RESERVATION)),
    protocol.Stop(),
    protocol.ReturnQueued(),
    protocol.InterruptRun(3, "timeout"),
    protocol.RunStarted(4, 1_800_000_000_000_000),
    protocol.RunNote(5, b"1", None),
    protocol.RunSucceeded(6, b"[1]", 0.5),
    protocol.RunEnded(7, kind="failed", error="e", reason="ValueError"),
    protocol.RunReturned(8),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_every_outcome_of_a_handler_survives(outcome):
    assert protocol.read_outcome(protocol.end_message(1, outcome)) == outcome


@pytest.mark.parametrize("outcome", [Cancelled(), Interrupted()], ids=lambda outcome: type(outcome).__name__)
def test_only_outcomes_of_a_handler_have_a_message(outcome):
    with pytest.raises(AssertionError, match="wanted the outcome of a handler"):
        protocol.end_message(1, outcome)


@given(st.lists(st.integers(1, 40), min_size=1))
def test_messages_are_complete_in_pieces_of_any_size(sizes):
    data = protocol.pack(MESSAGES[:4]) + protocol.pack([]) + protocol.pack(MESSAGES[4:])
    unpacker, received = protocol.Unpacker(), []
    while data:
        for size in sizes:
            received += unpacker.feed(data[:size])
            data = data[size:]
    assert received == MESSAGES


def test_no_message_carries_the_token_of_the_lease():
    assert b"secret" not in protocol.pack(MESSAGES)
