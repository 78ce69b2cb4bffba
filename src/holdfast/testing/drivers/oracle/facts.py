"""What the oracle knows, and the two moves through which every job comes and ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change, Entry
from holdfast.model.settlement import Settlement

SettingsKey = tuple[str, str | None]  # a queue, or a type in a queue


@dataclass(slots=True, kw_only=True)
class Kept:
    """One job and all that is known of it."""

    record: JobRecord
    seq: int  # the place of its arrival; a requeued job arrives again
    enqueued_at: int
    available_at: int
    ended_at: int | None = None
    lease: Lease | None = None
    worker: str = ""
    reserved_at: int | None = None
    started_at: int | None = None
    cancel_requested: bool = False
    released_for: int = 0
    last: tuple[str, str] | None = None  # verb and token of the settlement that ended the last lease
    progress: bytes | None = None
    checkpoint: bytes | None = None

    @property
    def state(self) -> State:
        """Where the job stands."""
        return self.record.state


@dataclass(slots=True)
class Key:
    """An idempotency key: whose it is, and until when at least."""

    job_id: str
    payload: bytes
    until: int


@dataclass(slots=True)
class Facts:
    """One space on lists and dictionaries that anybody may look into."""

    jobs: dict[str, Kept] = field(default_factory=dict)
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    settings: dict[SettingsKey, QueueSettings] = field(default_factory=dict)
    levels: dict[SettingsKey, tuple[Fraction, int]] = field(default_factory=dict)  # of each rate bucket, and since when
    registry: dict[tuple[str, str], Entry] = field(default_factory=dict)
    ledger: list[LedgerRow] = field(default_factory=list)
    trimmed: int = 0  # ledger rows that retention has removed
    arrivals: int = 0
    numbers: int = 0  # fences and versions

    def _arrive(self, record: JobRecord, *, enqueued_at: int, available_at: int) -> Kept:
        self.arrivals += 1
        job = Kept(record=record, seq=self.arrivals, enqueued_at=enqueued_at, available_at=available_at)
        self.jobs[record.id] = job
        return job

    def _end(
        self,
        job: Kept,
        ending: Ending,
        state: State | None,
        now: int,
        *,
        by: Settlement | None = None,
        detail: str = "",
        error: str = "",
    ) -> None:
        """One ledger row about the job as it was (L13), then the state; a lease that was there is over."""
        record, lease = job.record, job.lease
        if by is not None:
            detail = detail or by.detail
            job.started_at = job.started_at if by.started_at is None else by.started_at
        self.ledger.append(
            LedgerRow(
                job_id=record.id,
                type=record.type,
                queue=record.queue,
                domain=record.domain,
                offset=record.offset,
                attempt=record.attempts,
                fence=None if lease is None else lease.fence,
                worker=job.worker,
                enqueued_at=job.enqueued_at,
                available_at=job.available_at,
                reserved_at=job.reserved_at,
                started_at=job.started_at,
                ended_at=now,
                ending=ending,
                state=state,
                detail=detail,
                error=error,
            )
        )
        if lease is not None:
            job.last = None if by is None else (by.verb, lease.token)
        job.lease, job.worker, job.reserved_at, job.started_at = None, "", None, None
        if state is not None:
            job.record = replace(record, state=state)
            job.ended_at = now if state.has_ended else None

    def _bury(self, job: Kept, reason: str, now: int) -> None:
        job.record = replace(job.record, dead_reason=reason, dead_at=now)

    def _holds(self, key: Key, now: int) -> bool:
        job = self.jobs.get(key.job_id)
        within_window = now < key.until
        not_ended = job is not None and not job.state.has_ended
        return within_window or not_ended

    def _entry(self, kind: str, key: str, now: int) -> Entry | None:
        entry = self.registry.get((kind, key))
        return None if entry is None or gone(entry, now) else entry

    def _expected(self, change: Change, now: int) -> bool:
        entry = self._entry(change.kind, change.key, now)
        return change.version is None or change.version == (0 if entry is None else entry.version)

    def _change(self, change: Change, now: int) -> Entry:
        if change.value is None:
            self.registry.pop((change.kind, change.key), None)
            return Entry(key=change.key, value=None, version=0)
        self.numbers += 1
        expires_at = None if change.ttl is None else now + change.ttl
        entry = Entry(key=change.key, value=change.value, version=self.numbers, expires_at=expires_at)
        self.registry[change.kind, change.key] = entry
        return entry


def gone(entry: Entry, now: int) -> bool:
    """Whether a registry row has expired."""
    return entry.expires_at is not None and now >= entry.expires_at
