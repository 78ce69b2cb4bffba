"""Jobs with large payloads through every verb, for the stores that keep these payloads apart from the rows of jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.clock import DAY, HOUR, SECOND
from holdfast.driver import Ack, Change, Fail, JobFilter, JobRecord, Release, Retry, State, Store
from holdfast.drivers.requests import Cancel, Enqueue, LeaseTerms, Purge, Requeue, Reserve, Trim
from holdfast.errors import WriteRefused

NOW = 1_800_000_000 * SECOND
SIZE = 100_000


def large_job(name: str, fill: str = "x", **fields: object) -> JobRecord:
    """Return a job with a large payload of its own."""
    payload = f'"{name}{fill * SIZE}"'.encode()
    return JobRecord(**{"id": name, "type": "t", "queue": "q", "payload": payload, "created_at": NOW, **fields})


def walk_through_verbs(store: Store, check: Callable[[], None]) -> None:
    """Take jobs through all verbs that store, move or remove jobs, and call ``check`` after each step."""
    jobs = {name: large_job(name) for name in "abcdefgh"}

    def verify(*expected: str) -> None:
        check()
        found = {job.id: job.payload for job in store.find().items}
        assert found == {name: jobs[name].payload for name in expected}

    def reserve(limit: int = 100) -> dict[str, object]:
        reservations = store.do(
            Reserve(queues=["q"], limit=limit, lease_for=HOUR, max_bytes=None, now=NOW)
        ).reservations
        assert all(one.job.payload == jobs[one.job.id].payload for one in reservations)
        return {one.job.id: one.lease for one in reservations}

    store.enqueue([jobs["a"]], now=NOW)
    store.enqueue([jobs["b"], large_job("small", payload=b"1"), jobs["c"]], now=NOW)
    jobs["small"] = large_job("small", payload=b"1")
    verify("a", "b", "c", "small")
    answers = store.enqueue([jobs["a"], large_job("b", "y"), jobs["c"]], now=NOW)
    assert [(one.existed, one.conflict) for one in answers] == [(True, False), (True, True), (True, False)]
    with pytest.raises(WriteRefused):
        store.do(Enqueue(jobs=[jobs["d"]], writes=[Change(kind="k", key="k", value=b"1", version=7)], now=NOW))
    verify("a", "b", "c", "small")

    held = reserve()
    verify("a", "b", "c", "small")
    store.extend(list(held.values()), lease_for=HOUR, now=NOW)
    settled = [Retry(held["a"]), Release(held["b"]), Ack(held["small"]), Fail(held["c"], reason="no")]
    assert store.settle(settled, now=NOW) == [None] * 4
    verify("a", "b", "c", "small")
    assert [one.conflict for one in store.enqueue([large_job("c", "y"), jobs["c"]], now=NOW)] == [True, False]
    assert store.do(Requeue(job_ids=["c"], now=NOW)) == [True]
    verify("a", "b", "c", "small")

    first = store.do(Reserve(queues=["q"], limit=10, lease_for=HOUR, max_bytes=SIZE * 2 + 50, now=NOW)).reservations
    assert [(one.job.id, one.job.payload) for one in first] == [(name, jobs[name].payload) for name in "ab"]
    assert store.settle([Ack(one.lease, result=b"1" * SIZE) for one in first], now=NOW) == [None, None]
    assert store.do(Cancel(job_ids=["c"], now=NOW)) == [State.CANCELLED]
    verify("a", "b", "c", "small")
    assert store.do(Requeue(job_ids=["c"], now=NOW)) == [True]
    reserve()
    assert store.reap(now=NOW + 2 * HOUR) == 1
    assert store.do(Cancel(job_ids=["c"], now=NOW)) == [State.CANCELLED]
    assert store.do(Purge(job_ids=["c", "a"], now=NOW)) == [True, True]
    verify("b", "small")
    assert store.do(Trim(ended_for=DAY, now=NOW + 3 * DAY)).jobs == 2
    verify()

    jobs["d"] = large_job("d", idempotency_key="key", max_attempts=1)
    jobs["e"] = large_job("e", idempotency_key="key")
    store.enqueue([jobs["d"]], now=NOW)
    assert store.enqueue([jobs["e"]], now=NOW)[0].id == "d"
    reserve()
    assert store.reap(now=NOW + 2 * HOUR) == 1  # its last attempt
    assert [job.id for job in store.find(JobFilter(states={State.DEAD}))] == ["d"]
    verify("d")
    assert (
        store.do(Enqueue(jobs=[jobs["e"]], replace_dead_before=NOW + 3 * HOUR, now=NOW + 3 * HOUR)).answers[0].id == "e"
    )
    verify("e")

    jobs["f"], jobs["g"] = (large_job(name, domain="d", offset=number) for number, name in enumerate("fg"))
    store.enqueue([jobs["f"], jobs["g"]], now=NOW)
    again = store.enqueue([large_job("h", domain="d", offset=0, payload=jobs["f"].payload)], now=NOW)
    assert [(one.id, one.conflict) for one in again] == [("f", False)]
    held = reserve(2)
    verify("e", "f", "g")
    assert store.settle([Ack(held["f"])], now=NOW) == [None]
    assert list(reserve()) == ["g"]
    verify("e", "f", "g")
    leased = store.do(Enqueue(jobs=[jobs["h"]], lease=LeaseTerms(lease_for=HOUR), now=NOW)).reservations
    leased = leased or store.reserve(["q"], limit=1, lease_for=HOUR, now=NOW)  # or the batch was too small
    assert [one.job.payload for one in leased] == [jobs["h"].payload]
    assert store.get("h").payload == jobs["h"].payload
    check()
