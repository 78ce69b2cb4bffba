"""Registry writes that commit with an ack, or not at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.drivers.contract import Feature
from holdfast.errors import JobNotInflight, LeaseExpired, LeaseMismatch, WriteRefused
from holdfast.model.job import State
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, refused
from holdfast.testing.drivers.harness import LEASE, Harness

REGISTRY = {Feature.REGISTRY}
KIND = "guard"


def _change(key: str, value: bytes | None, **fields: Any) -> Change:
    return Change(**{"kind": KIND, "key": key, "value": value, **fields})


def _rows(h: Harness) -> dict[str, bytes | None]:
    return {entry.key: entry.value for entry in h.store.scan(KIND, now=h.stamp)}


def _there(h: Harness, key: str) -> Entry:
    [entry] = h.store.write([_change(key, b"old")], now=h.stamp)
    assert entry is not None, "wanted the row written"
    return entry


@case("L12", needs=REGISTRY)
def writes_commit_with_their_ack(h: Harness) -> None:
    known, gone = _there(h, "known"), _there(h, "gone")
    held = h.held()
    writes = (
        _change("new", b"1", version=0, ttl=10),
        _change("known", b"2", version=known.version),
        _change("gone", None, version=gone.version),
    )
    h.settled(Ack(held.lease, writes=writes))
    equal(h.state(held.job.id), State.DONE, "the state")
    equal(_rows(h), {"new": b"1", "known": b"2"}, "the rows")
    [new] = h.store.read(KIND, ["new"], now=h.stamp)
    assert new is not None, "wanted the new row"
    equal(new.expires_at, h.now + 10, "expires_at")


@case("L12", "L5", needs=REGISTRY)
def a_refused_write_refuses_the_ack_and_changes_nothing(h: Harness) -> None:
    there = _there(h, "there")
    held = h.held()
    writes = (_change("new", b"1", version=0), _change("there", b"2", version=0))
    with h.unchanged():
        [answer] = h.settle(Ack(held.lease, result=b"1", writes=writes))
    assert isinstance(answer, WriteRefused), f"wanted WriteRefused, got {answer!r}"
    equal((answer.job_id, answer.kind, answer.key), (held.job.id, KIND, "there"), "its facts")
    equal(_rows(h), {"there": b"old"}, "the rows")
    equal(h.store.read(KIND, ["there"], now=h.stamp), [there], "the row that was there")


@case("L12", "L5", needs=REGISTRY)
def after_a_refused_write_the_lease_is_as_good_as_before(h: Harness) -> None:
    _there(h, "there")
    held = h.held()
    refused(h.settle(Ack(held.lease, writes=(_change("there", b"2", version=0),))), WriteRefused)
    h.extended(held.lease)
    h.settled(Ack(held.lease, writes=(_change("there", b"2"),)))
    equal((h.state(held.job.id), _rows(h)), (State.DONE, {"there": b"2"}), "state and rows")


@case("L6", needs=REGISTRY)
def a_repeated_ack_writes_nothing(h: Harness) -> None:
    held = h.held()
    ack = Ack(held.lease, writes=(_change("key", b"1"),))
    h.settled(ack)
    before = h.store.read(KIND, ["key"], now=h.stamp)
    h.settled(ack, ack)
    equal(h.store.read(KIND, ["key"], now=h.stamp), before, "the row")
    h.store.write([_change("key", b"later")], now=h.stamp)
    h.settled(ack)
    equal(_rows(h), {"key": b"later"}, "the rows after somebody else wrote")


@case("L6", needs=REGISTRY)
def a_repeated_ack_is_accepted_though_its_writes_would_now_be_refused(h: Harness) -> None:
    held = h.held()
    ack = Ack(held.lease, writes=(_change("key", b"1", version=0),))
    h.settled(ack)
    h.settled(ack)


@case("L5", needs=REGISTRY)
def a_stale_ack_writes_nothing(h: Harness) -> None:
    held = h.held()
    writes = (_change("key", b"1"),)
    refused(h.settle(Ack(replace(held.lease, token="1.0"), writes=writes)), LeaseMismatch)
    h.advance(LEASE)
    refused(h.settle(Ack(held.lease, writes=writes)), LeaseExpired)
    h.reap()
    refused(h.settle(Ack(held.lease, writes=writes)), JobNotInflight)
    refused(h.settle(Ack(replace(held.lease, job_id="unknown"), writes=writes)), JobNotInflight)
    equal(_rows(h), {}, "the rows")


@case("L5", needs=REGISTRY)
def a_refused_write_spoils_no_other_item_of_the_batch(h: Harness) -> None:
    _there(h, "there")
    first, second, third = (h.held() for _ in range(3))
    answers = h.settle(
        Ack(first.lease, writes=(_change("a", b"1", version=0),)),
        Ack(second.lease, writes=(_change("b", b"1", version=0), _change("there", b"2", version=0))),
        Ack(third.lease, writes=(_change("c", b"1", version=0),)),
    )
    refused(answers, None, WriteRefused, None)
    states = [h.state(held.job.id) for held in (first, second, third)]
    equal(states, [State.DONE, State.INFLIGHT, State.DONE], "the states")
    equal(_rows(h), {"a": b"1", "c": b"1", "there": b"old"}, "the rows")


@case("L12", needs=REGISTRY)
def of_two_acks_that_claim_one_key_in_a_batch_the_first_wins(h: Harness) -> None:
    first, second = h.held(), h.held()
    claim = (_change("key", b"1", version=0),)
    refused(h.settle(Ack(first.lease, writes=claim), Ack(second.lease, writes=claim)), None, WriteRefused)
    equal(h.state(second.job.id), State.INFLIGHT, "the state of the second")
    h.settled(Release(second.lease))


@case("L12", "L2", needs=REGISTRY)
def a_write_finds_an_expired_row_absent(h: Harness) -> None:
    h.store.write([_change("key", b"1", ttl=10)], now=h.stamp)
    held = h.held()
    claim = Ack(held.lease, writes=(_change("key", b"2", version=0),))
    h.advance(9)
    refused(h.settle(claim), WriteRefused)
    h.advance(1)
    h.settled(claim)


@case("L12", needs=REGISTRY)
def the_refused_ack_may_be_settled_otherwise(h: Harness) -> None:
    _there(h, "there")
    held = h.held()
    refused(h.settle(Ack(held.lease, writes=(_change("there", b"2", version=0),))), WriteRefused)
    h.settled(Retry(held.lease, error="lost the race"))
    equal(h.state(held.job.id), State.READY, "the state")
