"""Messages between worker and child: every outcome of a handler survives, in pieces of any size."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.wire.job_message import job_message, payload_message
from holdfast.worker.outcome import (
    BadPayload,
    Cancelled,
    Failed,
    Interrupted,
    RetryRequested,
    Snoozed,
    Succeeded,
    UnknownType,
    Unrecovered,
)
from holdfast.worker.processes import protocol

JOB = JobRecord(id="j", type="t", queue="q", payload=b'{"a":1}', created_at=7, attempts=1, meta={"m": 1})
RESERVATION = Reservation(job=JOB, lease=Lease(job_id="j", token="7.secret", fence=7, expires_at=9))
OUTCOMES = [
    Succeeded(),
    Succeeded(result=b"[1]"),
    Succeeded(detail="result not stored: too large"),
    Failed(error="ValueError: 1", kind="ValueError"),
    Unrecovered(reason="never", error="KeyError: 2"),
    RetryRequested(after=5, error="later"),
    RetryRequested(error="later"),
    RetryRequested(after=5, error="429", pause_type=True),
    RetryRequested(after=5, error="429", pause_key=True),
    RetryRequested(after=5, error="429", pause_type=True, pause_key=True),
    Snoozed(delay=3, budget=9, reason="locked"),
    BadPayload(error="payload: wanted"),
    UnknownType(),
]
WORKER_MESSAGES: list[protocol.WorkerMessage] = [
    protocol.RunJob(1, job_message(RESERVATION)),
    protocol.RunJob(2, payload_message(RESERVATION)),
    protocol.Stop(),
    protocol.InterruptRun(3, "timeout"),
]
CHILD_MESSAGES: list[protocol.ChildMessage] = [
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


DIRECTIONS = [
    (protocol.decode_worker_messages, WORKER_MESSAGES, CHILD_MESSAGES),
    (protocol.decode_child_messages, CHILD_MESSAGES, WORKER_MESSAGES),
]


@pytest.mark.parametrize(("decode", "messages", "_others"), DIRECTIONS, ids=["from the worker", "from a child"])
@given(sizes=st.lists(st.integers(1, 40), min_size=1))
def test_messages_are_complete_in_pieces_of_any_size(decode, messages, _others, sizes):
    data = protocol.pack(messages[:2]) + protocol.pack([]) + protocol.pack(messages[2:])
    unpacker, received = protocol.Unpacker(decode), []
    while data:
        for size in sizes:
            received += unpacker.feed(data[:size])
            data = data[size:]
    assert (received, unpacker.error) == (messages, None)


@pytest.mark.parametrize(("decode", "messages", "others"), DIRECTIONS, ids=["from the worker", "from a child"])
def test_a_message_of_the_other_direction_is_refused_after_those_before_it(decode, messages, others):
    for other in others:
        unpacker = protocol.Unpacker(decode)
        assert unpacker.feed(protocol.pack(messages) + protocol.pack([other]) + protocol.pack(messages)) == messages
        assert isinstance(unpacker.error, protocol.ProtocolError)
        assert unpacker.feed(protocol.pack(messages)) == []


@st.composite
def changed_frames(draw):
    """Return frames of a child in which a few bytes were changed, removed or added."""
    data = bytearray(
        b"".join(protocol.pack([message]) for message in draw(st.lists(st.sampled_from(CHILD_MESSAGES), min_size=1)))
    )
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


@given(st.binary() | changed_frames(), st.integers(1, 200))
def test_whatever_bytes_arrive_the_reader_returns_messages_of_a_child_or_keeps_an_error(data, size):
    unpacker, received = protocol.Unpacker(protocol.decode_child_messages), []
    for at in range(0, len(data), size):
        received += unpacker.feed(data[at : at + size])
    assert all(isinstance(message, protocol.ChildMessage) for message in received)
    assert protocol.Unpacker(protocol.decode_child_messages).feed(data) == received  # the pieces make no difference
    follows = protocol.pack([protocol.RunReturned(1)])
    if unpacker.error is None:  # then the data ends within a frame, or at its end
        missing = unpacker._wanted - len(unpacker._rest) if unpacker._rest else 0
        assert 0 <= missing <= protocol.MAX_FRAME_BYTES
    else:
        assert unpacker.feed(follows) == []


@given(st.binary(min_size=1))
def test_bytes_between_two_frames_are_noticed_at_the_latest_with_the_next_frame(data):
    """Else they would be taken for the length of a long frame, and the worker would wait for its end."""
    unpacker = protocol.Unpacker(protocol.decode_child_messages)
    frame = protocol.pack([protocol.RunReturned(1)])
    received = unpacker.feed(frame) + unpacker.feed(data) + unpacker.feed(frame)
    assert received == [protocol.RunReturned(1)]
    assert unpacker.error is not None


def collect(pieces):
    collected = bytearray()
    for piece in pieces:
        collected += piece
    return bytes(collected)


def read(pieces):
    unpacker, received = protocol.Unpacker(protocol.decode_child_messages), []
    for piece in pieces:
        received += unpacker.feed(piece)
    return received


def seconds(function, pieces):
    def measure():
        start = time.process_time()
        assert function(pieces)
        return time.process_time() - start

    return min(measure() for _ in range(3))


def test_to_read_a_long_frame_takes_about_as_long_as_to_collect_its_bytes():
    """To copy all bytes again for each piece would take a hundred times as long."""
    data = protocol.pack([protocol.RunSucceeded(1, bytes(48 << 20))])
    pieces = [data[at : at + protocol.READ_BYTES] for at in range(0, len(data), protocol.READ_BYTES)]
    assert seconds(read, pieces) < 8 * seconds(collect, pieces)


def test_a_list_of_messages_that_is_too_long_for_a_frame_is_sent_in_several(monkeypatch):
    monkeypatch.setattr(protocol, "MAX_FRAME_BYTES", 40)
    data = protocol.pack(CHILD_MESSAGES)
    unpacker = protocol.Unpacker(protocol.decode_child_messages)
    assert unpacker.feed(data) == CHILD_MESSAGES
    assert data.count(protocol.FRAME_START) > 1


def test_no_message_carries_the_token_of_the_lease():
    assert b"secret" not in protocol.pack(WORKER_MESSAGES)
