"""The guards between ``reserve`` and the handler, and the registry writes that end them with the settlement.

| guard | before the handler | with the ack | with another settlement |
|---|---|---|---|
| allowlist of a queue | another type is dead, ``not allowed`` | | |
| idempotency mark | ``running``, by job and fence | ``done`` | stays, for the next attempt |
| single-instance lock | taken, for the time of the lease | removed | removed by a write after it |

The worker calls the guard in its own process, in batches, because its children have no store. ``process_once`` calls it
for one job.

An entry of the registry is taken by compare-and-set, so of two attempts one has it. An entry whose attempt is no longer
in flight is taken over: a crash leaves ``running``, and the job runs again. Only ``done`` skips a job, and ``done`` is
committed with the ack: no job is skipped whose work was not finished.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from holdfast.clock import DAY, SECOND, from_timedelta
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Inspect, Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import LeaseError, StoreError, Unsupported, WriteRefused
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.registry import Change, Entry
from holdfast.model.request import META_SINGLE_INSTANCE
from holdfast.model.settlement import Ack, Settlement, add_writes
from holdfast.wire.guard_entries import LOCK_KIND, MARK_KIND, Holder, lock_key, mark_key, read_holder
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.execution import Executions
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcome import Interrupted, Outcome, Skipped, Snoozed, Unrecovered
from holdfast.worker.processes.running import Run
from holdfast.worker.timing import WorkerTiming

NOT_ALLOWED = "not allowed"  # the reason of the dead letter
NO_LOCK = "no lock"  # the same
DEFAULT_IDEMPOTENCY_TTL = timedelta(hours=24)
RUNNING_TTL = 30 * DAY  # of the mark of a running attempt: no attempt lasts longer


@dataclass(slots=True, eq=False)
class _Claim:
    """An entry that a run needs. ``version`` is that of the entry while the run holds it, else None."""

    kind: str
    key: str
    value: bytes
    ttl: int
    done_ttl: int = 0  # of the mark after the ack
    version: int | None = None

    def take(self, version: int) -> Change:
        """Return the change that takes the entry, if it still has this version."""
        return Change(kind=self.kind, key=self.key, value=self.value, version=version, ttl=self.ttl)

    def extend(self) -> Change:
        """Return the change that keeps a lock for another lease."""
        return Change(kind=self.kind, key=self.key, value=self.value, version=self.version, ttl=self.ttl)

    def remove(self) -> Change:
        """Return the change that gives a lock back. It changes nothing if another run has the lock by now."""
        return Change(kind=self.kind, key=self.key, value=None, version=self.version)


Refused = list[tuple[Run, Outcome]]  # runs that do not start, each with its outcome


class Guard:
    """The guards of one worker. ``admit``, ``extend`` and ``settle`` may be called in three threads."""

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        options: WorkerOptions,
        observer: WorkerObserver | None = None,
        *,
        timing: WorkerTiming = WorkerTiming(),
    ) -> None:
        """Raise ``Unsupported`` if a handler needs a guard, and the store has no registry."""
        self._store = store
        self._observer = observer or WorkerObserver()
        self._lease_for = options.lease_for
        self._contention_delay = timing.contention_delay_seconds * SECOND
        self._contention_budget = int(timing.contention_budget_seconds * SECOND)
        self._allowed = {queue: frozenset(types) for queue, types in (options.allowed_handlers or {}).items()}
        ttl = options.idempotency_ttl or DEFAULT_IDEMPOTENCY_TTL
        self._idempotent = {  # by type: how long the key is done
            handler.type: from_timedelta(handler.idempotency_ttl or ttl)
            for handler in catalogue
            if (options.idempotent if handler.idempotent is None else handler.idempotent)
        }
        self._single_instance = {handler.type: handler.single_instance for handler in catalogue}
        self._executions = Executions(store, catalogue)
        self._is_active = bool(self._allowed or self._idempotent or any(self._single_instance.values()))
        needs_registry = self._idempotent or any(self._single_instance.values()) or self._executions.is_active
        gaps = store.capabilities.gaps
        self._gap = gaps.get(Feature.REGISTRY) or gaps.get(Feature.WRITES)
        if needs_registry and self._gap is not None:
            raise Unsupported(store.capabilities.driver, "idempotent, single_instance or capture_output", self._gap)
        self._held: dict[Run, list[_Claim]] = {}
        self._lock = threading.Lock()  # of _held
        self._random = random.Random()  # noqa: S311 - jitter

    # Before the handler -----------------------------------------------------------------------------------------

    def admit(self, runs: Sequence[Run]) -> tuple[list[Run], Refused]:
        """Return the runs that may start, and the others with their outcomes. Their leases are valid.

        If the store fails, the guarded runs are released.
        """
        if not self._is_active and not any([META_SINGLE_INSTANCE in run.reservation.job.meta for run in runs]):  # noqa: C419 - a list is faster
            return list(runs), []
        refused: dict[Run, Outcome] = {}
        claims: dict[Run, list[_Claim]] = {}
        for run in runs:
            job = run.reservation.job
            if job.type not in self._allowed.get(job.queue, (job.type,)):
                error = f"{job.type} is not one of the handlers that the settings allow in the queue {job.queue}"
                refused[run] = Unrecovered(reason=NOT_ALLOWED, error=error)
            elif wanted := self._claims(run):
                if self._gap is None:
                    claims[run] = wanted
                else:
                    refused[run] = Unrecovered(reason=NO_LOCK, error=f"the store keeps no locks: {self._gap}")
        if claims:
            try:
                refused |= self._take(claims)
            except StoreError as error:
                self._observer.store_failed("guard", error)
                refused |= {run: Interrupted(reason="the store did not answer the guard") for run in claims}
            with self._lock:  # also of refused runs that hold a lock: their settlement gives it back
                self._held.update(claims)
        return [run for run in runs if run not in refused], list(refused.items())

    def _claims(self, run: Run) -> list[_Claim]:
        """Return what the job needs before it may start: its mark, then its lock."""
        job, claims = run.reservation.job, []
        value = Holder(job_id=job.id, fence=run.reservation.lease.fence).encode()
        done_ttl = self._idempotent.get(job.type)
        # With ``unique`` a producer says itself when the key may be used again.
        if done_ttl is not None and job.idempotency_key is not None and job.unique_for is None:
            key = mark_key(job.queue, job.idempotency_key)
            claims.append(_Claim(MARK_KIND, key, value, RUNNING_TTL, done_ttl))
        single_instance = _single_instance_of(job) or self._single_instance.get(job.type)
        if single_instance:
            name = single_instance if isinstance(single_instance, str) else None
            claims.append(_Claim(LOCK_KIND, lock_key(job.queue, job.type, name), value, self._lease_for))
        return claims

    def _take(self, claims: dict[Run, list[_Claim]]) -> dict[Run, Outcome]:
        """Take the entries of all runs; return the outcomes of the runs that did not get theirs.

        Most entries do not exist: one write takes them all. Only the others are read, and taken over if nobody holds
        them.
        """
        wanted = [(run, claim) for run, own in claims.items() for claim in own]
        missing = self._write(wanted, [claim.take(0) for _, claim in wanted])
        refused: dict[Run, Outcome] = {}
        free: list[tuple[Run, _Claim]] = []
        versions: list[int] = []
        for (run, claim), entry in zip(missing, self._read(missing), strict=True):
            holder = read_holder(entry)
            outcome = None if holder is None else self._refusal(run, claim, holder)
            if outcome is None:
                free.append((run, claim))
                versions.append(0 if entry is None else entry.version)
            elif not isinstance(refused.get(run), Skipped):
                refused[run] = outcome
        changes = [claim.take(version) for (_, claim), version in zip(free, versions, strict=True)]
        for run, claim in self._write(free, changes):
            refused.setdefault(run, self._contended(claim, "another job"))
        return refused

    def _write(self, wanted: Sequence[tuple[Run, _Claim]], changes: list[Change]) -> list[tuple[Run, _Claim]]:
        """Make one change for each claim; return the claims whose entry has another version."""
        entries = _write_all(self._store, changes)
        for (_, claim), entry in zip(wanted, entries, strict=True):
            claim.version = None if entry is None else entry.version
        return [one for one, entry in zip(wanted, entries, strict=True) if entry is None]

    def _read(self, claims: Sequence[tuple[Run, _Claim]]) -> list[Entry | None]:
        found: dict[tuple[str, str], Entry | None] = {}
        for kind in (MARK_KIND, LOCK_KIND):
            keys = [claim.key for _, claim in claims if claim.kind == kind]
            for start in range(0, len(keys), bounds.MAX_BATCH_ITEMS):
                batch = keys[start : start + bounds.MAX_BATCH_ITEMS]
                found |= {
                    (kind, key): entry
                    for key, entry in zip(batch, self._store.do(Read(kind=kind, keys=batch)), strict=True)
                }
        return [found[claim.kind, claim.key] for _, claim in claims]

    def _refusal(self, run: Run, claim: _Claim, holder: Holder) -> Outcome | None:
        """Return the outcome of a run whose entry has a holder; None if the run takes the entry over."""
        if holder.done:
            return Skipped(reason=f"its idempotency key is done, by job {holder.job_id}")
        if holder.job_id == run.reservation.job.id and holder.fence < run.reservation.lease.fence:
            return None  # an earlier attempt of the same job: its lease has ended, or this one would not exist
        other = self._store.do(Inspect(job_ids=[holder.job_id], payloads=False)).get(holder.job_id)
        is_running = other is not None and other.job.state is State.INFLIGHT and other.fence == holder.fence
        return self._contended(claim, f"job {holder.job_id}") if is_running else None

    def _contended(self, claim: _Claim, by: str) -> Snoozed:
        what = "its idempotency key" if claim.kind == MARK_KIND else "its single-instance lock"
        delay = int(self._contention_delay * (0.5 + self._random.random()))
        return Snoozed(delay=delay, budget=self._contention_budget, reason=f"{what} is held by {by}")

    # While the handler runs -------------------------------------------------------------------------------------

    def extend(self, runs: Iterable[Run]) -> list[Run]:
        """Keep the locks of these runs for another lease, in one write; return the runs whose lock is lost.

        Call it before the leases are extended: a lock ends no sooner than its lease.
        """
        if not self._held:
            return []
        with self._lock:
            held = [
                (run, claim)
                for run in runs
                for claim in self._held.get(run, ())
                if claim.kind == LOCK_KIND and claim.version is not None
            ]
        entries = _write_all(self._store, [claim.extend() for _, claim in held])
        refused = []
        for (run, claim), entry in zip(held, entries, strict=True):
            if entry is None:
                refused.append((run, claim))
            else:
                claim.version = entry.version
        lost = []
        for (run, claim), entry in zip(refused, self._read(refused), strict=True):
            if entry is not None and entry.value == claim.value:  # the answer to an earlier write was lost
                claim.version = entry.version
            else:
                claim.version = None
                log_event(events.LOCK_LOST, job_id=run.reservation.job.id, type=run.reservation.job.type)
                lost.append(run)
        return lost

    # With the settlement ----------------------------------------------------------------------------------------

    def add_writes(self, runs: Sequence[Run], settlements: list[Settlement]) -> list[Settlement]:
        """Return the settlements of a batch, the acks with the writes that are committed with them."""
        if not self._held and not self._executions.is_active:
            return settlements
        return [self._with_writes(run, settlement) for run, settlement in zip(runs, settlements, strict=True)]

    def _with_writes(self, run: Run, settlement: Settlement) -> Settlement:
        if not isinstance(settlement, Ack):
            return settlement
        with self._lock:
            claims = [claim for claim in self._held.get(run, ()) if claim.version is not None]
        writes = [_done(run, claim) if claim.kind == MARK_KIND else claim.remove() for claim in claims]
        writes += self._executions.changes(run, settlement)
        return add_writes(settlement, writes) if writes else settlement

    def settle(self, runs: Sequence[Run], settlements: list[Settlement]) -> list[LeaseError | None]:
        """Settle, and give back the locks that no ack gave back. A changed settlement replaces the one in the list.

        An ack that is refused because another one has its mark or its lock is sent again without those writes: the
        handler has finished, and must not run again.
        """
        answers = list(self._store.settle(settlements))
        if not self._held and not self._executions.is_active:
            return answers
        again = [place for place, answer in enumerate(answers) if isinstance(answer, WriteRefused)]
        if again:
            unguarded = [_without_guards(settlements[place]) for place in again]
            for place, settlement, answer in zip(again, unguarded, self._store.settle(unguarded), strict=True):
                settlements[place], answers[place] = settlement, answer
        changes: list[Change] = []
        for place, (run, settlement, answer) in enumerate(zip(runs, settlements, answers, strict=True)):
            is_acked = isinstance(settlement, Ack) and answer is None
            if not is_acked and answer is None:
                changes += self._executions.changes(run, settlement)
            if not is_acked or place in again:
                changes += self._locks_of(run)
        self.forget(runs)
        try:
            _write_all(self._store, changes)
        except StoreError as error:  # the locks expire
            self._observer.store_failed("guard", error)
        return answers

    def _locks_of(self, run: Run) -> list[Change]:
        with self._lock:
            claims = self._held.get(run, ())
            return [claim.remove() for claim in claims if claim.kind == LOCK_KIND and claim.version is not None]

    def forget(self, runs: Iterable[Run]) -> None:
        """Drop what is known about runs that have ended."""
        if self._held:
            with self._lock:
                for run in runs:
                    self._held.pop(run, None)


def _single_instance_of(job: JobRecord) -> bool | str:
    """Return what the job itself asks for. A value that no client writes counts as a lock of its queue and type."""
    stored = job.meta.get(META_SINGLE_INSTANCE)
    return stored if isinstance(stored, str) else bool(stored)


def _done(run: Run, claim: _Claim) -> Change:
    value = Holder(job_id=run.reservation.job.id, fence=run.reservation.lease.fence, done=True).encode()
    return Change(kind=claim.kind, key=claim.key, value=value, version=claim.version, ttl=claim.done_ttl)


def _without_guards(settlement: Settlement) -> Settlement:
    assert isinstance(settlement, Ack), settlement  # only an ack has writes
    writes = tuple(write for write in settlement.writes if write.kind not in (MARK_KIND, LOCK_KIND))
    return replace(settlement, writes=writes, detail="done without its guard: another attempt has taken it")


def _write_all(store: Store, changes: Sequence[Change]) -> list[Entry | None]:
    """Write in the order of the keys, as acks do: two workers with the same keys cannot wait for one another."""
    places = sorted(range(len(changes)), key=lambda place: (changes[place].kind, changes[place].key))
    entries: list[Entry | None] = [None] * len(changes)
    for start in range(0, len(places), bounds.MAX_BATCH_ITEMS):
        batch = places[start : start + bounds.MAX_BATCH_ITEMS]
        for place, entry in zip(batch, store.do(Write(changes=[changes[place] for place in batch])), strict=True):
            entries[place] = entry
    return entries
