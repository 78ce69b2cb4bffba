"""The data of the oracle, and the two changes that every call uses: add a job, and end a job or a lease."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from msgspec.structs import replace

from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.registry import Entry
from holdfast.model.settlement import Settlement

SettingsKey = tuple[str, str | None]  # a queue, or a type in a queue
KeyPlace = tuple[str, str]  # a queue, and a limit key of its jobs
Place = tuple[str, str]  # a queue, and a domain in it


@dataclass(slots=True, kw_only=True)
class OracleJob:
    """One job and its lease."""

    record: JobRecord
    seq: int  # the order of arrival; a requeued job gets a new number
    enqueued_at: int
    available_at: int
    ended_at: int | None = None
    lease: Lease | None = None
    worker: str = ""
    reserved_at: int | None = None
    started_at: int | None = None
    cancel_requested: bool = False
    released_for: int = 0
    last_settlement: tuple[str, str] | None = None  # verb and token of the settlement that ended the last lease
    progress: bytes | None = None
    checkpoint: bytes | None = None
    is_prefetched: bool = False
    is_suspect: bool = False
    counted_crash_of: str | None = None  # the token of the last lease, if its expiry counted a crash

    @property
    def state(self) -> State:
        """The state of the job."""
        return self.record.state

    @property
    def place(self) -> Place | None:
        """The domain of the job; None if it has none."""
        return None if self.record.domain is None else (self.record.queue, self.record.domain)


@dataclass(slots=True)
class IdempotencyKey:
    """The job that has the key, the end of the dedupe window, and the states in which the job has the key."""

    job_id: str
    payload: bytes
    until: int
    states: frozenset[State]


@dataclass(slots=True)
class OracleState:
    """One space, in lists and dictionaries."""

    jobs: dict[str, OracleJob] = field(default_factory=dict)
    keys: dict[tuple[str, str], IdempotencyKey] = field(default_factory=dict)  # by queue and key
    settings: dict[SettingsKey, QueueSettings] = field(default_factory=dict)
    rate_buckets: dict[SettingsKey, tuple[Fraction, int]] = field(default_factory=dict)  # level, and when it was set
    key_buckets: dict[KeyPlace, tuple[Fraction, int]] = field(default_factory=dict)  # as rate_buckets, of limit keys
    key_holds: dict[KeyPlace, int] = field(default_factory=dict)  # the instants at which the holds end
    ended_offsets: dict[Place, set[int]] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)  # the offsets at which domains begin, if not at 0
    halts: dict[Place, tuple[str, int]] = field(default_factory=dict)  # the dead job, and when it halted its domain
    waits: dict[Place, tuple[int, int]] = field(default_factory=dict)  # the missing offset, and since when
    changed: set[Place] = field(default_factory=set)  # domains in which the current call has ended a lease or a job
    arrived: set[Place] = field(default_factory=set)  # domains with new jobs that no reserve has looked at
    registry: dict[tuple[str, str], Entry] = field(default_factory=dict)  # by kind and key
    ledger: list[LedgerRow] = field(default_factory=list)
    trimmed_rows: int = 0  # ledger rows that retention has removed
    last_seq: int = 0
    last_number: int = 0  # the counter of fences and versions

    def next_number(self) -> int:
        """Return the next fence or version."""
        self.last_number += 1
        return self.last_number

    def add(self, record: JobRecord, *, enqueued_at: int, available_at: int, seq: int | None = None) -> OracleJob:
        """Add a job behind all others, or at the place ``seq`` of an earlier one."""
        if seq is None:
            self.last_seq += 1
            seq = self.last_seq
        job = OracleJob(record=record, seq=seq, enqueued_at=enqueued_at, available_at=available_at)
        self.jobs[record.id] = job
        if job.place is not None:
            self.arrived.add(job.place)
        return job

    def end(
        self,
        job: OracleJob,
        ending: Ending,
        state: State | None,
        now: int,
        *,
        by: Settlement | None = None,
        detail: str = "",
        error: str = "",
    ) -> None:
        """Write one ledger row with the job's old values (L13), then set the state and clear the lease."""
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
            job.last_settlement = None if by is None else (by.verb, lease.token)
            job.counted_crash_of = None
        job.lease, job.worker, job.reserved_at, job.started_at = None, "", None, None
        if state is not None:
            job.record = replace(record, state=state)
            job.ended_at = now if state.has_ended else None
            if job.place is not None and ending is not Ending.REQUEUED:
                self._change_domain(job, job.place, now)

    def _change_domain(self, job: OracleJob, place: Place, now: int) -> None:
        """Remember that an offset has ended, and halt the domain of a dead job if its queue says so."""
        self.changed.add(place)
        if job.state.has_ended and job.record.offset is not None:
            self.ended_offsets.setdefault(place, set()).add(job.record.offset)
        settings = self.settings.get((place[0], None), QueueSettings())
        if job.state is State.DEAD and settings.on_exhausted is OnExhausted.HALT:
            self.halts[place] = job.record.id, now

    def is_key_taken(self, key: IdempotencyKey, now: int) -> bool:
        """Whether the key still refers to its job: within its window, or while the job is open, or queued (L12)."""
        job = self.jobs.get(key.job_id)
        return now < key.until or (job is not None and job.state in key.states)


def mark_dead(job: OracleJob, reason: str, now: int) -> None:
    """Store why and when the job became a dead letter."""
    job.record = replace(job.record, dead_reason=reason, dead_at=now)
