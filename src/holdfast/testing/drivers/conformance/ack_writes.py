"""Registry writes in the same transaction as an ack."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec.structs import replace

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.errors import JobNotInflight, LeaseExpired, LeaseMismatch, WriteRefused
from holdfast.model.job import State
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

REGISTRY = {Feature.REGISTRY, Feature.WRITES}
KIND = "guard"


def _change(key: str, value: bytes | None, **fields: Any) -> Change:
    return Change(**{"kind": KIND, "key": key, "value": value, **fields})


def _rows(h: Harness) -> dict[str, bytes | None]:
    return {entry.key: entry.value for entry in h.store.do(Scan(kind=KIND, now=h.now_or_none))}


def _write_row(h: Harness, key: str) -> Entry:
    [entry] = h.store.do(Write(changes=[_change(key, b"old")], now=h.now_or_none))
    assert entry is not None, "wanted the row written"
    return entry


@case("L12", needs=REGISTRY | {Feature.CALLER_CLOCK})
def writes_commit_with_their_ack(h: Harness) -> None:
    known, removed = _write_row(h, "known"), _write_row(h, "removed")
    reservation = h.reserve_new_job()
    writes = (
        _change("new", b"1", version=0, ttl=10),
        _change("known", b"2", version=known.version),
        _change("removed", None, version=removed.version),
    )
    h.must_settle(Ack(reservation.lease, writes=writes))
    assert_equal(h.state(reservation.job.id), State.DONE, "the state")
    assert_equal(_rows(h), {"new": b"1", "known": b"2"}, "the rows")
    [new] = h.store.do(Read(kind=KIND, keys=["new"], now=h.now_or_none))
    assert new is not None, "wanted the new row"
    assert_equal(new.expires_at, h.now + 10, "expires_at")


@case("L12", "L5", needs=REGISTRY | {Feature.RESULT})
def a_refused_write_refuses_the_ack_and_changes_nothing(h: Harness) -> None:
    existing = _write_row(h, "there")
    reservation = h.reserve_new_job()
    writes = (_change("new", b"1", version=0), _change("there", b"2", version=0))
    with h.assert_unchanged():
        [answer] = h.settle(Ack(reservation.lease, result=b"1", writes=writes))
    assert isinstance(answer, WriteRefused), f"wanted WriteRefused, got {answer!r}"
    assert_equal(
        (answer.job_id, answer.kind, answer.key), (reservation.job.id, KIND, "there"), "the attributes of the error"
    )
    assert_equal(_rows(h), {"there": b"old"}, "the rows")
    assert_equal(h.store.do(Read(kind=KIND, keys=["there"], now=h.now_or_none)), [existing], "the existing row")


@case("L12", "L5", needs=REGISTRY)
def a_refused_write_leaves_the_lease_valid(h: Harness) -> None:
    _write_row(h, "there")
    reservation = h.reserve_new_job()
    assert_answers(h.settle(Ack(reservation.lease, writes=(_change("there", b"2", version=0),))), WriteRefused)
    h.must_extend(reservation.lease)
    h.must_settle(Ack(reservation.lease, writes=(_change("there", b"2"),)))
    assert_equal((h.state(reservation.job.id), _rows(h)), (State.DONE, {"there": b"2"}), "state and rows")


@case("L6", needs=REGISTRY)
def a_repeated_ack_writes_nothing(h: Harness) -> None:
    reservation = h.reserve_new_job()
    ack = Ack(reservation.lease, writes=(_change("key", b"1"),))
    h.must_settle(ack)
    before = h.store.do(Read(kind=KIND, keys=["key"], now=h.now_or_none))
    h.must_settle(ack, ack)
    assert_equal(h.store.do(Read(kind=KIND, keys=["key"], now=h.now_or_none)), before, "the row")
    h.store.do(Write(changes=[_change("key", b"later")], now=h.now_or_none))
    h.must_settle(ack)
    assert_equal(_rows(h), {"key": b"later"}, "the rows after another write")


@case("L6", needs=REGISTRY)
def a_repeated_ack_is_accepted_even_if_its_writes_would_now_be_refused(h: Harness) -> None:
    reservation = h.reserve_new_job()
    ack = Ack(reservation.lease, writes=(_change("key", b"1", version=0),))
    h.must_settle(ack)
    h.must_settle(ack)


@case("L5", needs=REGISTRY)
def a_stale_ack_writes_nothing(h: Harness) -> None:
    reservation = h.reserve_new_job()
    writes = (_change("key", b"1"),)
    assert_answers(h.settle(Ack(replace(reservation.lease, token="1.0"), writes=writes)), LeaseMismatch)
    h.advance(LEASE)
    assert_answers(h.settle(Ack(reservation.lease, writes=writes)), LeaseExpired)
    h.reap()
    assert_answers(h.settle(Ack(reservation.lease, writes=writes)), JobNotInflight)
    assert_answers(h.settle(Ack(replace(reservation.lease, job_id="unknown"), writes=writes)), JobNotInflight)
    assert_equal(_rows(h), {}, "the rows")


@case("L5", needs=REGISTRY)
def a_refused_write_does_not_affect_other_settlements_of_the_batch(h: Harness) -> None:
    _write_row(h, "there")
    first, second, third = (h.reserve_new_job() for _ in range(3))
    answers = h.settle(
        Ack(first.lease, writes=(_change("a", b"1", version=0),)),
        Ack(second.lease, writes=(_change("b", b"1", version=0), _change("there", b"2", version=0))),
        Ack(third.lease, writes=(_change("c", b"1", version=0),)),
    )
    assert_answers(answers, None, WriteRefused, None)
    states = [h.state(reservation.job.id) for reservation in (first, second, third)]
    assert_equal(states, [State.DONE, State.INFLIGHT, State.DONE], "the states")
    assert_equal(_rows(h), {"a": b"1", "c": b"1", "there": b"old"}, "the rows")


@case("L12", needs=REGISTRY)
def of_two_acks_that_claim_one_key_in_a_batch_the_first_wins(h: Harness) -> None:
    first, second = h.reserve_new_job(), h.reserve_new_job()
    claim = (_change("key", b"1", version=0),)
    assert_answers(h.settle(Ack(first.lease, writes=claim), Ack(second.lease, writes=claim)), None, WriteRefused)
    assert_equal(h.state(second.job.id), State.INFLIGHT, "the state of the second")
    h.must_settle(Release(second.lease))


@case("L12", needs=REGISTRY)
def the_acks_of_a_batch_write_one_after_another(h: Harness) -> None:
    _write_row(h, "key")
    reservations = [h.reserve_new_job() for _ in range(4)]
    changes = [
        _change("key", None),
        _change("key", b"1", version=0),
        _change("key", b"2", version=0),
        _change("key", b"3"),
    ]
    acks = [Ack(each.lease, writes=(change,)) for each, change in zip(reservations, changes, strict=True)]
    assert_answers(h.settle(*acks), None, None, WriteRefused, None)
    assert_equal(_rows(h), {"key": b"3"}, "the rows")


@case("L12", needs=REGISTRY)
def many_acks_of_a_batch_make_their_writes_or_are_refused_alone(h: Harness) -> None:
    kept = [_write_row(h, f"kept-{number}") for number in range(20)]
    reservations = [h.reserve_new_job() for _ in range(20)]
    acks = [
        Ack(
            each.lease,
            writes=(
                _change(f"kept-{number}", b"new", version=kept[number].version + number % 2),
                _change(f"new-{number}", b"new", version=0),
                _change(f"absent-{number}", None, version=0),
            ),
        )
        for number, each in enumerate(reservations)
    ]
    assert_answers(h.settle(*acks), *[WriteRefused if number % 2 else None for number in range(20)])
    expected = {f"kept-{number}": b"old" if number % 2 else b"new" for number in range(20)}
    expected |= {f"new-{number}": b"new" for number in range(0, 20, 2)}
    assert_equal(_rows(h), expected, "the rows")


@case("L12", needs=REGISTRY)
def of_threads_whose_acks_claim_the_same_keys_one_wins_each_key(h: Harness) -> None:
    keys = [f"key-{number:02}" for number in range(30)]
    orders = [keys, keys[::-1], keys, keys[::-1]]
    batches = [
        [Ack(h.reserve_new_job().lease, writes=(_change(key, b"1", version=0),)) for key in order] for order in orders
    ]
    stores = [h.connect_again() for _ in batches]
    answers = h.run_concurrently(
        *[partial(store.settle, batch, now=h.now_or_none) for store, batch in zip(stores, batches, strict=True)]
    )
    won = [
        key
        for order, each in zip(orders, answers, strict=True)
        for key, answer in zip(order, each, strict=True)
        if not answer
    ]
    assert_equal(sorted(won), keys, "the keys of accepted acks")


@case("L12", "L2", needs=REGISTRY)
def a_write_treats_an_expired_row_as_absent(h: Harness) -> None:
    h.store.do(Write(changes=[_change("key", b"1", ttl=10)], now=h.now_or_none))
    reservation = h.reserve_new_job()
    claim = Ack(reservation.lease, writes=(_change("key", b"2", version=0),))
    h.advance(9)
    assert_answers(h.settle(claim), WriteRefused)
    h.advance(1)
    h.must_settle(claim)


@case("L12", needs=REGISTRY)
def a_lease_can_be_settled_differently_after_a_refused_write(h: Harness) -> None:
    _write_row(h, "there")
    reservation = h.reserve_new_job()
    assert_answers(h.settle(Ack(reservation.lease, writes=(_change("there", b"2", version=0),))), WriteRefused)
    h.must_settle(Retry(reservation.lease, error="lost the race"))
    assert_equal(h.state(reservation.job.id), State.READY, "the state")
