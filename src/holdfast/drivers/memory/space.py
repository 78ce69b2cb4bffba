"""One tenant's rows, and the moves between states. Every move keeps lanes, leases, domains and ledger in step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Note, is_expired
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.order import Capacity, Lane, Limit, SettingsKey
from holdfast.model.queue_settings import Bucket, QueueSettings
from holdfast.model.registry import Entry
from holdfast.model.transition import HeldJob, Transition


@dataclass(slots=True, kw_only=True)
class Row:
    """A job and everything the store knows of it beside the record."""

    job: JobRecord
    seq: int
    enqueued_at: int
    available_at: int
    token: str | None = None
    fence: int | None = None
    worker: str = ""
    reserved_at: int | None = None
    started_at: int | None = None
    expires_at: int | None = None
    released_for: int = 0
    cancel_requested: bool = False
    last_verb: str | None = None
    last_token: str | None = None
    ended_at: int | None = None
    note: Note | None = None

    @property
    def lane(self) -> Lane:
        """Where it stands while it is ready and has its turn."""
        return Lane(self.job.queue, self.job.type, self.job.priority)

    @property
    def held(self) -> HeldJob:
        """The facts that decisions are made from."""
        job = self.job
        return HeldJob(
            state=job.state,
            token=self.token,
            expires_at=self.expires_at,
            reserved_at=self.reserved_at,
            available_at=self.available_at,
            run_at=job.run_at,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            crashes=job.crashes,
            max_crashes=job.max_crashes,
            released_for=self.released_for,
            cancel_requested=self.cancel_requested,
            last_verb=self.last_verb,
            last_token=self.last_token,
            last_error=job.last_error,
            failed_at=job.failed_at,
        )


@dataclass(slots=True)
class Dedupe:
    """What an idempotency key stands for."""

    job_id: str
    payload: bytes
    until: int


Place = tuple[int, int, str]  # (available_at or expires_at, seq, job id)


class Space:
    """A tenant's whole world of queues. Not locked: the driver holds the lock around every verb."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.waiting: defaultdict[Lane, list[Place]] = defaultdict(list)  # ready, with the turn
        self.leased: defaultdict[str, list[Place]] = defaultdict(list)  # in flight, by queue, oldest expiry first
        self.domains: defaultdict[tuple[str, str], list[str]] = defaultdict(list)  # job ids; the first has the turn
        self.dedupe: dict[tuple[str, str], Dedupe] = {}
        self.settings: dict[SettingsKey, QueueSettings] = {}
        self.buckets: dict[SettingsKey, Bucket | None] = {}
        self.registry: dict[tuple[str, str], Entry] = {}
        self.ledger: list[LedgerRow] = []
        self.ledger_trimmed = 0  # rows removed from its front: cursors count from the first row ever written
        self._counter = 0
        self._seq = 0

    def next_numbers(self, count: int) -> int:
        """Take ``count`` numbers from the space's one counter; gives the first. Fences and versions grow by it (L4)."""
        first = self._counter + 1
        self._counter += count
        return first

    # Standing in line -------------------------------------------------------------------------------------------

    def add(self, job: JobRecord, now: int) -> Row:
        """A new ready row at the end of its line, and of its domain."""
        self._seq += 1
        row = Row(
            job=job,
            seq=self._seq,
            enqueued_at=now,
            available_at=now if job.run_at is None else job.run_at,
        )
        self.rows[job.id] = row
        if job.domain is not None:
            self.domains[job.queue, job.domain].append(job.id)
        self._stand(row)
        return row

    def due(self, lane: Lane, now: int) -> Iterator[Place]:
        """The lane's jobs that may run now, in order."""
        for place in self.waiting[lane]:
            if place[0] > now:
                return
            yield place

    def has_turn(self, row: Row) -> bool:
        """Whether no other job of its domain comes first (L11)."""
        return row.job.domain is None or self.domains[row.job.queue, row.job.domain][0] == row.job.id

    def _stand(self, row: Row) -> None:
        if self.has_turn(row):
            insort(self.waiting[row.lane], (row.available_at, row.seq, row.job.id))

    def _leave(self, row: Row) -> None:
        if self.has_turn(row):
            _remove(self.waiting[row.lane], (row.available_at, row.seq, row.job.id))

    def _pass_turn(self, row: Row) -> None:
        """Take a finished job out of its domain; if it was the head, the next one stands in its lane."""
        if row.job.domain is None:
            return
        line = self.domains[row.job.queue, row.job.domain]
        was_head = line[0] == row.job.id
        line.remove(row.job.id)
        if not line:
            del self.domains[row.job.queue, row.job.domain]
        elif was_head:
            self._stand(self.rows[line[0]])

    # Leases -----------------------------------------------------------------------------------------------------

    def lease(self, row: Row, lease: Lease, worker: str, now: int) -> None:
        """Ready to in flight; the attempt counts from here (L7)."""
        self._leave(row)
        row.job = replace(row.job, state=State.INFLIGHT, attempts=row.job.attempts + 1)
        row.token, row.fence, row.expires_at = lease.token, lease.fence, lease.expires_at
        row.worker, row.reserved_at, row.started_at = worker, now, None
        insort(self.leased[row.job.queue], (lease.expires_at, row.seq, row.job.id))

    def extend(self, row: Row, expires_at: int) -> None:
        """Move the end of a lease."""
        assert row.expires_at is not None
        _remove(self.leased[row.job.queue], (row.expires_at, row.seq, row.job.id))
        row.expires_at = expires_at
        insort(self.leased[row.job.queue], (expires_at, row.seq, row.job.id))

    def expired(self, queues: list[str], now: int) -> list[Row]:
        """Rows in flight past their lease, oldest first."""
        places = sorted(place for queue in queues for place in self._expired_in(queue, now))
        return [self.rows[job_id] for _, _, job_id in places]

    def _expired_in(self, queue: str, now: int) -> Iterator[Place]:
        for place in self.leased[queue]:
            if not is_expired(place[0], now):
                return
            yield place

    def end(self, row: Row, outcome: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        """In flight to whatever the outcome says, with its ledger row and the turn handed on: one step."""
        assert row.expires_at is not None
        _remove(self.leased[row.job.queue], (row.expires_at, row.seq, row.job.id))
        row.started_at = row.started_at if started_at is None else started_at
        self.write_ledger(
            row,
            ending=outcome.ending,
            state=outcome.state,
            now=now,
            detail=outcome.detail,
            error=outcome.error,
        )
        row.job = replace(
            row.job,
            state=outcome.state,
            attempts=outcome.attempts,
            crashes=outcome.crashes,
            run_at=outcome.run_at,
            last_error=outcome.last_error,
            failed_at=outcome.failed_at,
            dead_reason=outcome.dead_reason,
            dead_at=outcome.dead_at,
            result=outcome.result,
        )
        row.available_at, row.released_for = outcome.available_at, outcome.released_for
        row.last_verb, row.last_token = verb, row.token
        self._clear_lease(row)
        if outcome.state.has_ended:
            row.ended_at = now
            self._pass_turn(row)
        else:
            self._stand(row)

    def _clear_lease(self, row: Row) -> None:
        row.token = row.fence = row.expires_at = row.reserved_at = row.started_at = None
        row.worker = ""

    # Without a lease --------------------------------------------------------------------------------------------

    def cancel(self, row: Row, now: int) -> None:
        """Ready to cancelled."""
        self._leave(row)
        self.write_ledger(row, ending=Ending.CANCELLED, state=State.CANCELLED, now=now)
        row.job = replace(row.job, state=State.CANCELLED)
        row.ended_at = now
        self._pass_turn(row)

    def requeue(self, row: Row, now: int) -> None:
        """Dead or cancelled to ready, as if it had just come, but under its id and with its last error."""
        self.write_ledger(row, ending=Ending.REQUEUED, state=State.READY, now=now)
        again = replace(
            row.job,
            state=State.READY,
            attempts=0,
            crashes=0,
            run_at=None,
            dead_reason=None,
            dead_at=None,
        )
        fresh = self.add(again, now)
        fresh.enqueued_at, fresh.note = row.enqueued_at, row.note
        fresh.last_verb, fresh.last_token = row.last_verb, row.last_token

    def purge(self, row: Row, now: int) -> None:
        """An ended job to nothing but a ledger row."""
        self.write_ledger(row, ending=Ending.PURGED, state=None, now=now)
        del self.rows[row.job.id]

    # Settings, truth --------------------------------------------------------------------------------------------

    def capacity(self, queues: list[str], now: int) -> Capacity:
        """What the settings of these queues leave for a reserve."""
        capacity = Capacity()
        for key, settings in self.settings.items():
            queue, job_type = key
            if queue in queues:
                inflight = [self.rows[job_id] for _, _, job_id in self.leased[queue]]
                count = sum(job_type in (None, row.job.type) for row in inflight)
                bucket = self.buckets.get(key)
                left = settings.allowance(inflight=count, bucket=bucket, now=now)
                capacity.limits[key] = Limit(settings, bucket, left)
        return capacity

    def write_ledger(
        self, row: Row, *, ending: Ending, state: State | None, now: int, detail: str = "", error: str = ""
    ) -> None:
        """Append what just ended; called before the row changes."""
        self.ledger.append(
            LedgerRow(
                job_id=row.job.id,
                type=row.job.type,
                queue=row.job.queue,
                domain=row.job.domain,
                offset=row.job.offset,
                attempt=row.job.attempts,
                fence=row.fence,
                worker=row.worker,
                enqueued_at=row.enqueued_at,
                available_at=row.available_at,
                reserved_at=row.reserved_at,
                started_at=row.started_at,
                ended_at=now,
                ending=ending,
                state=state,
                detail=detail,
                error=error,
            )
        )


def _remove(line: list[Place], place: Place) -> None:
    """Take one place out of a sorted line; it must be there."""
    at = bisect_left(line, place)
    assert line[at] == place, f"{place} should stand at {at}"
    del line[at]
