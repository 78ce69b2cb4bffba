"""A driver with the core alone: jobs in a dict. `python examples/core_driver.py` runs the conformance suite on it.

`docs/reference/drivers.md` walks through it. A driver for a real store has the same methods, with the rows elsewhere.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import SplitResult

from msgspec.structs import replace

from holdfast import driver as d
from holdfast.driver import requests as r
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, StoreClosed
from holdfast.testing.drivers import Harness, cases, run_cases

A = TypeVar("A")


@dataclass
class Row:
    """A stored job: its record, what decides about its lease, its place in the queue, and the names on its lease."""

    job: d.JobRecord
    held: d.HeldJob
    seq: int
    fence: int | None = None
    worker: str = ""
    ended_at: int | None = None


class DictEngine(d.Engine):
    """Jobs in the memory of one process. Whatever is not in the core is refused before a request gets here."""

    can = d.Capabilities(
        driver="dict",
        durability=d.Durability.MEMORY,
        gaps={
            **dict.fromkeys((*d.GROUPS, *d.FIELDS), "this driver has the core alone"),
            **dict.fromkeys((d.Feature.JOINED, d.Feature.PROCESSES, d.Feature.MACHINES), "the jobs are in one process"),
        },
    )

    def __init__(self, clock: d.Clock, *, space: str, caller_clock: bool) -> None:
        self.space_name, self.caller_clock = space, caller_clock
        self._clock = clock
        self._rows: dict[str, Row] = {}  # in the order of arrival
        self._lock = threading.Lock()
        self._fence = 0
        self._is_closed = False

    def execute(self, request: r.Request[A]) -> A:
        """One request at a time is one transaction. The waits only sleep."""
        if self._is_closed:
            raise StoreClosed
        if isinstance(request, r.Wait | r.WaitForCancel):
            return super().execute(request)
        with self._lock:
            return super().execute(request)

    def open_space(self, name: str) -> d.Engine:
        """Return this one: the gap of ``SPACES`` is declared, so no other is asked for."""
        del name
        return self

    def close(self) -> None:
        """Refuse what comes later."""
        self._is_closed = True

    def enqueue(self, request: r.Enqueue) -> d.Stored:
        """Store jobs; a known id stores nothing."""
        return d.Stored([self._enqueue_one(job, self._now(request)) for job in request.jobs])

    def _enqueue_one(self, job: d.JobRecord, now: int) -> d.Enqueued:
        known = self._rows.get(job.id)
        if known is not None:
            return d.Enqueued(id=job.id, existed=True, conflict=known.job.payload != job.payload)
        held = d.HeldJob(
            state=d.State.READY,
            token=None,
            expires_at=None,
            reserved_at=None,
            available_at=now,
            run_at=None,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            crashes=job.crashes,
            max_crashes=job.max_crashes,
            released_for=0,
            cancel_requested=False,
            last_verb=None,
            last_token=None,
            last_error=job.last_error,
            failed_at=None,
        )
        self._rows[job.id] = Row(job, held, seq=len(self._rows))
        return d.Enqueued(id=job.id, existed=False)

    def reserve(self, request: r.Reserve) -> d.Reserved:
        """End expired leases, pick due jobs in order, and lease them."""
        now = self._now(request)
        for row in self._leased(now, queues=request.queues)[: r.REAP_LIMIT]:
            self._end(row, d.after_expiry(row.held, now), d.expiry_verb(row.held), now)
        lanes = [
            (d.Lane(queue, "", 0, isolated), self._due(queue, now, isolated=isolated))
            for queue in r.distinct(request.queues)
            for isolated in (False, True)
        ]
        picked = d.pick(
            lanes,
            limit=request.limit,
            capacity=d.Capacity(),  # no limits
            isolation=request.isolation,
            max_bytes=request.max_bytes,
            size_of=lambda due: len(self._rows[due[2]].job.payload),
        )
        fences = range(self._fence + 1, self._fence + 1 + len(picked))
        self._fence += len(picked)
        tokens = d.make_tokens(fences, d.token_bytes(len(picked)))
        return d.Reserved(
            [
                self._lease(self._rows[job_id], request, fence, token, now)
                for (_, (_, _, job_id)), fence, token in zip(picked, fences, tokens, strict=True)
            ]
        )

    def _due(self, queue: str, now: int, *, isolated: bool) -> Iterator[tuple[int, int, str]]:
        """The jobs of a queue that may run, in order. Jobs that crashed run alone: they have a lane of their own."""
        ready = (row for row in self._rows.values() if row.job.queue == queue and row.held.state == d.State.READY)
        places = ((row.held.available_at, row.seq, row.job.id) for row in ready if (row.held.crashes > 0) is isolated)
        return iter(sorted(place for place in places if place[0] <= now))

    def _lease(self, row: Row, request: r.Reserve, fence: int, token: str, now: int) -> d.Reservation:
        attempts, expires_at = row.held.attempts + 1, now + request.lease_for
        row.job = replace(row.job, state=d.State.INFLIGHT, attempts=attempts)
        row.held = row.held._replace(
            state=d.State.INFLIGHT, attempts=attempts, token=token, expires_at=expires_at, reserved_at=now
        )
        row.fence, row.worker = fence, request.worker
        lease = d.Lease(job_id=row.job.id, token=token, fence=fence, expires_at=expires_at)
        return d.Reservation(job=row.job, lease=lease, isolated=row.held.crashes > 0)

    def extend(self, request: r.Extend) -> list[d.Lease | LeaseError]:
        """Move the ends of valid leases."""
        now = self._now(request)
        return [self._extend_one(lease, now + request.lease_for, now) for lease in request.leases]

    def _extend_one(self, lease: d.Lease, expires_at: int, now: int) -> d.Lease | LeaseError:
        row = self._rows.get(lease.job_id)
        refused = d.refusal(None if row is None else row.held, lease, now)
        if row is None or refused is not None:
            return refused or JobNotInflight(lease.job_id, None)
        row.held = row.held._replace(expires_at=expires_at)
        return replace(lease, expires_at=expires_at)

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """End leases; the repetition of a settlement changes nothing."""
        return [self._settle_one(settlement, self._now(request)) for settlement in request.settlements]

    def _settle_one(self, settlement: d.Settlement, now: int) -> LeaseError | None:
        row = self._rows.get(settlement.lease.job_id)
        held = None if row is None else row.held
        if row is None or not d.is_repeat(held, settlement):
            refused = d.refusal(held, settlement.lease, now)
            if row is None or refused is not None:
                return refused
            self._end(row, d.after_settlement(row.held, settlement, now), settlement.verb, now)
        return None

    def _end(self, row: Row, to: d.Transition, verb: str, now: int) -> None:
        """Store what a decision says about the job, and remove its lease."""
        row.job = to.apply(row.job)
        row.held = row.held._replace(
            state=to.state,
            attempts=to.attempts,
            crashes=to.crashes,
            last_error=to.last_error,
            failed_at=to.failed_at,
            available_at=to.available_at,
            released_for=to.released_for,
            last_verb=verb,
            last_token=row.held.token,
            token=None,
            expires_at=None,
            reserved_at=None,
        )
        row.fence, row.worker = None, ""
        row.ended_at = now if to.state.has_ended else None

    def reap(self, request: r.Reap) -> d.Reaped:
        """End expired leases, or those of a dead worker, or take back the crashes of an outage."""
        now = self._now(request)
        if request.leases is not None:
            reported = [self._report_outage(lease, now) for lease in request.leases]
            return d.Reaped(sum(reported), reported=reported)
        rows = self._leased(now, queues=request.queues, worker=request.worker)[: request.limit]
        for row in rows:
            self._end(row, d.after_expiry(row.held, now), d.expiry_verb(row.held), now)
        return d.Reaped(len(rows))

    def _leased(self, now: int, *, queues: Sequence[str] | None, worker: str | None = None) -> list[Row]:
        """The leases that have expired, or all of a worker, oldest first."""
        leased = [
            (row.held.expires_at, row.seq, row)
            for row in self._rows.values()
            if row.held.expires_at is not None and (queues is None or row.job.queue in queues)
            if (d.is_expired(row.held.expires_at, now) if worker is None else row.worker == worker)
        ]
        return [row for _, _, row in sorted(leased, key=lambda one: one[:2])]

    def _report_outage(self, lease: d.Lease, now: int) -> bool:
        row = self._rows.get(lease.job_id)
        if row is None:
            return False
        if isinstance(d.refusal(row.held, lease, now), LeaseExpired):
            in_outage = d.after_expiry(row.held, now, in_outage=True)
            self._end(row, in_outage, d.expiry_verb(row.held, in_outage=True), now)
            return True
        if not d.has_counted_crash(row.held, lease):
            return False
        row.job = replace(row.job, crashes=row.job.crashes - 1)
        row.held = row.held._replace(crashes=row.job.crashes, last_verb=d.expiry_verb(row.held, in_outage=True))
        return True

    def inspect(self, request: r.Inspect) -> dict[str, d.Inspection]:
        """Return jobs, also those that have ended."""
        found = (self._rows[job_id] for job_id in r.distinct(request.job_ids) if job_id in self._rows)
        return {row.job.id: self._inspection(row, payloads=request.payloads) for row in found}

    def _inspection(self, row: Row, *, payloads: bool) -> d.Inspection:
        return d.Inspection(
            job=row.job if payloads else replace(row.job, payload=b""),
            available_at=row.held.available_at,
            worker=row.worker,
            fence=row.fence,
            reserved_at=row.held.reserved_at,
            expires_at=row.held.expires_at,
            ended_at=row.ended_at,
            arrival=row.seq,
        )

    def _now(self, request: r.Request[A]) -> int:
        return self._clock.now() if request.now is None else request.now


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: d.Clock | None) -> d.Store:
    """Open ``dict://``: the entry point of the driver."""
    d.read_options(url, {})
    return d.Store(DictEngine(clock or d.SystemClock(), space=space, caller_clock=caller_clock))


class DictHarness(Harness):
    """How the suite opens the store. Every case gets a new one, because the driver has no spaces."""

    def open(self, *, space: str, caller_clock: bool) -> d.Store:
        """Open a new store."""
        return d.Store(DictEngine(d.SystemClock(), space=space, caller_clock=caller_clock))


def main() -> None:
    """Run the suite: each case passes, or says which feature it needs that the driver declines."""
    results = list(run_cases(DictHarness(), cases()))
    counts = Counter(result.status.name.lower() for result in results)
    print(", ".join(f"{number} {status}" for status, number in sorted(counts.items())))
    failures = [f"{result.case.name}: {result.reason}" for result in results if result.status.name == "FAILED"]
    assert not failures, "\n".join(failures)


if __name__ == "__main__":
    main()
