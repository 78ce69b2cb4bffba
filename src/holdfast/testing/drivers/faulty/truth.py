"""Drivers that remember wrong: keys, ledger, cancels, spaces, the door."""

# ruff: noqa: ARG002 - a bug looks at only a part of what it is given
from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from holdfast.clock import Clock
from holdfast.drivers.contract import Feature, Inspection, JobFilter, Page, Registry
from holdfast.drivers.memory.driver import MemoryStore
from holdfast.drivers.memory.reserve import lease_rows
from holdfast.drivers.memory.rows import Row, StoredKey
from holdfast.drivers.memory.settle import end_leases
from holdfast.drivers.memory.space import Space
from holdfast.drivers.validation import Validation
from holdfast.errors import InvalidInput, LeaseError, LedgerTrimmed
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Lease, Note, Reservation, is_expired
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.transition import Transition
from holdfast.testing.drivers.faulty.faulty_driver import BentSpace, Faulty
from holdfast.testing.drivers.faulty.leases import GAP

# Enqueue and idempotency -----------------------------------------------------------------------------------------


class DedupeRaces(Faulty):
    """Looking for a key and claiming it are two steps: threads that come between them all make jobs."""

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """Look, pause, insert what was not there."""
        self._validation.check_enqueue(jobs)
        keys = [(job.queue, job.idempotency_key) for job in jobs if job.idempotency_key is not None]
        with self._lock:
            fresh = [key for key in keys if key not in self._space.keys]
        time.sleep(GAP if fresh else 0)
        with self._lock:
            for queue, key in fresh:
                self._space.keys.pop((queue, str(key)), None)
            return super().enqueue(jobs, now=now)


class DedupeIgnoresQueue(Faulty):
    """A key stands for one job in all queues."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        for (_, key), mapped in space.keys.items():
            if key == job.idempotency_key and space.is_taken(mapped, now):
                return Enqueued(id=mapped.job_id, existed=True, conflict=mapped.payload != job.payload)
        return super()._enqueue(space, job, now)


class _ForgetfulSpace(BentSpace):
    def end(self, row: Row, outcome: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        super().end(row, outcome, verb, now, started_at)
        if verb == "ack":
            self.keys = {key: mapped for key, mapped in self.keys.items() if mapped.job_id != row.job.id}


class DedupeForgetsAtAck(Faulty):
    """An ack takes the idempotency key with it."""

    rows = _ForgetfulSpace


class _WindowOnly(BentSpace):
    def is_taken(self, key: StoredKey, now: int) -> bool:
        return not is_expired(key.until, now)


class DedupeForgetsTheLiving(Faulty):
    """A key is forgotten after its window though its job still waits."""

    rows = _WindowOnly


class _AlwaysTaken(BentSpace):
    def is_taken(self, key: StoredKey, now: int) -> bool:
        del key, now
        return True


class DedupeNeverForgets(Faulty):
    """A key is remembered for ever."""

    rows = _AlwaysTaken


class EnqueueOverwrites(Faulty):
    """A known id takes the new payload."""

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        answer = super()._enqueue(space, job, now)
        if answer.existed and answer.id == job.id:
            row = space.rows[job.id]
            row.job = replace(row.job, payload=job.payload)
        return answer


class EnqueuesHalf(Faulty):
    """What stands before a bad record is stored."""

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """One by one."""
        self._validation.now(now)
        return [answer for job in jobs for answer in super(EnqueuesHalf, self).enqueue([job], now=now)]


# The ledger ------------------------------------------------------------------------------------------------------


class _SilentSpace(BentSpace):
    silent: tuple[Ending, ...] = (Ending.EXPIRED,)

    def write_ledger(
        self, row: Row, *, ending: Ending, state: State | None, now: int, detail: str = "", error: str = ""
    ) -> None:
        if ending not in self.silent:
            super().write_ledger(row, ending=ending, state=state, now=now, detail=detail, error=error)


class LedgerForgetsExpiry(Faulty):
    """A lease that expired leaves no row."""

    rows = _SilentSpace


class _QuietSpace(_SilentSpace):
    silent = (Ending.PURGED, Ending.REQUEUED)


class LedgerForgetsOperators(Faulty):
    """What operators do leaves no row."""

    rows = _QuietSpace


class _BackwardSpace(BentSpace):
    def write_ledger(
        self, row: Row, *, ending: Ending, state: State | None, now: int, detail: str = "", error: str = ""
    ) -> None:
        del state
        super().write_ledger(row, ending=ending, state=row.job.state, now=now, detail=detail, error=error)


class LedgerTellsTheStateBefore(Faulty):
    """A row tells the state before the ending, not the one after it."""

    rows = _BackwardSpace


class LedgerSkips(Faulty):
    """A cursor leads past a row."""

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """A page, and a cursor one too far."""
        page = super().ledger(after, limit)
        return replace(page, cursor=str(int(page.cursor or 0) + 1)) if page.items else page


class LedgerEnds(Faulty):
    """The last page has no cursor: a reader starts again from the oldest row."""

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """A page, and no cursor from an empty one."""
        page = super().ledger(after, limit)
        return page if page.items else replace(page, cursor=None)


class LedgerTrimmedSilently(Faulty):
    """A reader behind the trim skips rows without being told."""

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Whatever is left."""
        try:
            return super().ledger(after, limit)
        except LedgerTrimmed:
            return super().ledger(None, limit)


class _ForgetsReaders(Validation):
    def retention(self, registry: Registry, *, ended_for: int, ledger_for: int, now: int | None) -> tuple[int, int]:
        return ended_for, ledger_for


class TrimDoesNotWait(Faulty):
    """Retention removes what a registered reader has not read."""

    validation = _ForgetsReaders


# Cancels, notes, spaces, the door --------------------------------------------------------------------------------


class CancelEndsTheRunning(Faulty):
    """A running job is cancelled under its worker's hands."""

    def cancel(self, job_ids: Sequence[str], *, now: int | None = None) -> list[State | None]:
        """End whatever was only flagged."""
        answers = super().cancel(job_ids, now=now)
        with self._lock:
            for number, job_id in enumerate(job_ids):
                row = self._space.rows.get(job_id)
                if row is not None and row.job.state is State.INFLIGHT:
                    end_leases(self._space, [row], self._validation.now(now))
                    answers[number] = row.job.state
        return answers


class CancelUntold(Faulty):
    """An extend does not tell that the job was asked to stop."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        answer = super()._extend(space, lease, now, expires_at, note)
        return replace(answer, cancel_requested=False) if isinstance(answer, Lease) else answer


class CancelBeatsAck(Faulty):
    """A job that finished in spite of a cancel is cancelled."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """Cancelled where it should be done."""
        return outcome._replace(state=State.CANCELLED) if row.cancel_requested else outcome


class LosesNotes(Faulty):
    """A checkpoint is forgotten with the attempt that left it."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """No note left."""
        row.note = None
        return outcome


class LosesResults(Faulty):
    """The result of an ack is not kept."""

    def bend(self, row: Row, outcome: Transition, verb: str, now: int) -> Transition:
        """No result."""
        return outcome._replace(result=None)


class ShowsTokens(Faulty):
    """An inspection shows the token of a lease to anyone who looks."""

    def inspect(self, job_id: str) -> Inspection | None:
        """The token among the progress."""
        found = super().inspect(job_id)
        if found is None or found.note is None:
            return found
        token = self._space.rows[job_id].token or ""
        return replace(found, note=replace(found.note, progress=(found.note.progress or b"") + token.encode()))


class OpenMeansWaiting(Faulty):
    """A job that runs does not count as open: who waits for the last one leaves too early."""

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """Only those that nobody has."""
        asked = (JobFilter(queue=queue, type=type_, states=(State.READY,)) for queue in queues for type_ in types)
        return any(self.find(where, limit=1).items for where in asked)


class LeasesWhatExisted(Faulty):
    """Whoever brings a batch again is given leases of what others have."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """A lease for each that is not over."""
        answers = self.enqueue(jobs, now=now)
        with self._lock:
            rows = [self._space.rows[answer.id] for answer in answers]
            at = self._validation.now(now)
            live = [row for row in rows if not row.job.state.has_ended]
            return answers, lease_rows(self._space, live, expires_at=at + lease_for, worker=worker, now=at)


class _NeverLimited(BentSpace):
    def is_limited(self, queues: Collection[str], now: int) -> bool:
        return False


class LeasesPastThePause(Faulty):
    """Jobs that are leased as they are stored know neither pause nor limits."""

    rows = _NeverLimited


class SpacesLeak(Faulty):
    """All spaces are one."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        caller_clock: bool = False,
        space: str = "main",
        store: MemoryStore | None = None,
    ) -> None:
        del space
        super().__init__(clock, caller_clock=caller_clock, store=store)


class _TakesAnyInstant(Validation):
    def caller_now(self, given: int | None) -> int | None:
        return given


class TrustsEveryClock(Faulty):
    """A caller's clock is honoured by every store."""

    validation = _TakesAnyInstant


class NeverCloses(Faulty):
    """A closed store goes on."""

    def close(self) -> None:
        """Nothing."""


class _ChecksOnlyTheState(Validation):
    def check_enqueue(self, jobs: Sequence[JobRecord]) -> None:
        if any(job.state is not State.READY for job in jobs):
            raise InvalidInput("state", wanted="ready", got="another")


class LeavesTheDoorOpen(Faulty):
    """Records are stored as they come."""

    validation = _ChecksOnlyTheState


class _RequiresNothing(Validation):
    def require(self, feature: Feature) -> None:
        """Accept every feature."""


class Pretends(Faulty):
    """What the driver declined is accepted and ignored."""

    validation = _RequiresNothing


FAULTY: tuple[type[Faulty], ...] = (
    DedupeRaces,
    DedupeIgnoresQueue,
    DedupeForgetsAtAck,
    DedupeForgetsTheLiving,
    DedupeNeverForgets,
    EnqueueOverwrites,
    EnqueuesHalf,
    LedgerForgetsExpiry,
    LedgerForgetsOperators,
    LedgerTellsTheStateBefore,
    LedgerSkips,
    LedgerEnds,
    LedgerTrimmedSilently,
    TrimDoesNotWait,
    CancelEndsTheRunning,
    CancelUntold,
    CancelBeatsAck,
    LosesNotes,
    LosesResults,
    ShowsTokens,
    OpenMeansWaiting,
    LeasesWhatExisted,
    LeasesPastThePause,
    SpacesLeak,
    TrustsEveryClock,
    NeverCloses,
    LeavesTheDoorOpen,
    Pretends,
)
