"""The verbs of law, in memory: check at the door, take the lock, move rows."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn, Self
from urllib.parse import SplitResult
from weakref import WeakValueDictionary

from holdfast.clock import SECOND, Clock, SystemClock, monotonic
from holdfast.drivers.contract import REAP_LIMIT, Capabilities, Durability, Feature
from holdfast.drivers.memory.admin import MemoryAdmin
from holdfast.drivers.memory.space import Dedupe, Row, Space
from holdfast.drivers.url_options import options
from holdfast.drivers.validation import Validation
from holdfast.errors import JobNotInflight, LeaseError, StoreClosed, Unsupported, WriteRefused
from holdfast.model import bounds, transition
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import must_wait, representatives
from holdfast.model.lease import Enqueued, Lease, Note, Reservation, is_expired, make_tokens, token_bytes
from holdfast.model.order import pick
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Settlement

EXPIRED = "expired"  # the last verb of a reaped lease: no settlement can be a replay of it


class Memory:
    """What all spaces of one store share."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or SystemClock()
        self.changed = threading.Condition()
        self.changes = 0  # counted, so that a waiter notices what happened between its last reserve and its wait
        self.spaces: defaultdict[str, Space] = defaultdict(Space)
        self.closed = False


class MemoryDriver(MemoryAdmin):
    """A complete store for tests, simulations and single processes; nothing survives it."""

    capabilities = Capabilities(
        driver="memory",
        durability=Durability.MEMORY,
        gaps={
            Feature.OFFSETS: "domains run in order of arrival",
            Feature.HALT: "a domain goes on when its head fails for good",
            Feature.JOINED: "there is no transaction to join",
            Feature.PROCESSES: "the store lives in one process",
            Feature.MACHINES: "the store lives in one process",
        },
    )

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        caller_clock: bool = False,
        space: str = "main",
        memory: Memory | None = None,
    ) -> None:
        self._memory = memory or Memory(clock)
        self._space = self._memory.spaces[bounds.check_name("space", space)]
        self._changed = self._memory.changed
        self._seen = threading.local()
        self.caller_clock = caller_clock
        self._validation = Validation(self.capabilities, caller_clock=caller_clock, read_clock=self._memory.clock.now)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Space:
        """The rows, for a caller that holds the lock."""
        if self._memory.closed:
            raise StoreClosed
        return self._space

    def _wake(self) -> None:
        """Work may have become ready: tell those who wait."""
        self._memory.changes += 1
        self._changed.notify_all()

    # Enqueue ----------------------------------------------------------------------------------------------------

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``."""
        self._validation.check_enqueue(jobs)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            answers = [self._enqueue(space, job, at) for job in jobs]
            self._wake()
            return answers

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """See ``LeasedEnqueue.enqueue_leased``."""
        self._validation.check_enqueue(jobs)
        self._validation.check_lease(lease_for, worker)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            answers = [self._enqueue(space, job, at) for job in jobs]
            self._wake()
            if any(answer.existed for answer in answers) or must_wait(jobs) or self._is_limited(space, jobs, at):
                return answers, []
            return answers, self._lease(space, [space.rows[job.id] for job in jobs], at, at + lease_for, worker)

    @staticmethod
    def _is_limited(space: Space, jobs: Sequence[JobRecord], now: int) -> bool:
        queues = {job.queue for job in representatives(jobs)}
        return any(settings.is_limiting(now) for (queue, _), settings in space.settings.items() if queue in queues)

    def _enqueue(self, space: Space, job: JobRecord, now: int) -> Enqueued:
        known = space.rows.get(job.id)
        if known is not None:
            return Enqueued(id=job.id, existed=True, conflict=known.job.payload != job.payload)
        if job.idempotency_key is not None:
            key = (job.queue, job.idempotency_key)
            mapped = space.dedupe.get(key)
            if mapped is not None and self._remembers(space, mapped, now):
                return Enqueued(id=mapped.job_id, existed=True, conflict=mapped.payload != job.payload)
            window = space.settings.get((job.queue, None), QueueSettings()).dedupe_window
            space.dedupe[key] = Dedupe(job.id, job.payload, now + window)
        space.add(job, now)
        return Enqueued(id=job.id, existed=False)

    @staticmethod
    def _remembers(space: Space, mapped: Dedupe, now: int) -> bool:
        """A key holds for its window, and for as long as its job has not ended (L12)."""
        row = space.rows.get(mapped.job_id)
        return not is_expired(mapped.until, now) or (row is not None and not row.job.state.has_ended)

    # Reserve ----------------------------------------------------------------------------------------------------

    def reserve(
        self,
        queues: Sequence[str],
        *,
        limit: int,
        lease_for: int,
        worker: str = "",
        types: Collection[str] | None = None,
        now: int | None = None,
    ) -> list[Reservation]:
        """See ``Driver.reserve``."""
        names = self._validation.check_reserve(queues, limit, lease_for, worker, types)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            self._seen.changes = self._memory.changes
            self._reap(space, space.expired(names, at)[:REAP_LIMIT], at)
            rows = self._pick(space, names, types, limit, at)
            return self._lease(space, rows, at, at + lease_for, worker)

    @staticmethod
    def _lease(space: Space, rows: Sequence[Row], now: int, expires_at: int, worker: str) -> list[Reservation]:
        first = space.next_numbers(len(rows))
        fences = range(first, first + len(rows))
        proofs = make_tokens(fences, token_bytes(len(rows)))
        found = []
        for row, fence, token in zip(rows, fences, proofs, strict=True):
            lease = Lease(job_id=row.job.id, token=token, fence=fence, expires_at=expires_at)
            space.lease(row, lease, worker, now)
            checkpoint = None if row.note is None else row.note.checkpoint
            found.append(Reservation(job=row.job, lease=lease, checkpoint=checkpoint))
        return found

    def _pick(self, space: Space, queues: list[str], types: Collection[str] | None, limit: int, now: int) -> list[Row]:
        """The next rows over all asked lanes, within the capacity that settings leave."""
        capacity = space.capacity(queues, now)
        lanes = [
            (lane, space.due(lane, now))
            for lane in space.waiting
            if lane.queue in queues and (types is None or lane.type in types)
        ]
        places = pick(lanes, limit=limit, capacity=capacity)
        for key, used in capacity.limits.items():
            space.buckets[key] = used.bucket_after(now)
        return [space.rows[job_id] for _, (_, _, job_id) in places]

    # Extend, settle, reap ---------------------------------------------------------------------------------------

    def extend(
        self,
        leases: Sequence[Lease],
        *,
        lease_for: int,
        notes: Mapping[str, Note] | None = None,
        now: int | None = None,
    ) -> list[Lease | LeaseError]:
        """See ``Driver.extend``."""
        self._validation.check_extend(leases, lease_for)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            return [self._extend(space, lease, at, at + lease_for, (notes or {}).get(lease.job_id)) for lease in leases]

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        row = space.rows.get(lease.job_id)
        refused = self._refusal(row, lease, now)
        if row is None or refused is not None:
            return refused or JobNotInflight(lease.job_id, None)
        space.extend(row, expires_at)
        if note is not None:
            self._keep(row, note)
        return Lease(
            job_id=lease.job_id,
            token=lease.token,
            fence=lease.fence,
            expires_at=expires_at,
            cancel_requested=row.cancel_requested,
        )

    @staticmethod
    def _keep(row: Row, note: Note) -> None:
        """Fields that the note leaves out stay as they were."""
        old = row.note or Note()
        row.started_at = row.started_at if note.started_at is None else note.started_at
        row.note = Note(
            progress=old.progress if note.progress is None else note.progress,
            checkpoint=old.checkpoint if note.checkpoint is None else note.checkpoint,
        )

    @staticmethod
    def _refusal(row: Row | None, lease: Lease, now: int) -> LeaseError | None:
        return transition.refusal(None if row is None else row.held, lease, now)

    def settle(self, settlements: Sequence[Settlement], *, now: int | None = None) -> list[LeaseError | None]:
        """See ``Driver.settle``."""
        self._validation.check_settle(settlements)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            answers = [self._settle(space, settlement, at) for settlement in settlements]
            self._wake()
            return answers

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        """One settlement, in the order of law: a replay, a refusal, or the whole effect."""
        row = space.rows.get(settlement.lease.job_id)
        if transition.is_repeat(None if row is None else row.held, settlement):
            return None
        refused = self._refusal(row, settlement.lease, now)
        if row is None or refused is not None:
            return refused
        if isinstance(settlement, Ack):
            conflict = self._conflict(space, settlement.writes, now)
            if conflict is not None:
                return WriteRefused(row.job.id, kind=conflict.kind, key=conflict.key)
            for change in settlement.writes:
                self._change(space, change, now)
        outcome = transition.after_settlement(row.held, settlement, now)
        space.end(row, outcome, settlement.verb, now, settlement.started_at)
        return None

    def reap(
        self,
        queues: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        limit: int = REAP_LIMIT,
        now: int | None = None,
    ) -> int:
        """See ``Driver.reap``."""
        names = self._validation.check_reap(queues, worker, limit)
        with self._changed:
            space, at = self._open(), self._validation.now(now)
            names = list(space.leased) if names is None else names
            if worker is None:
                rows = space.expired(names, at)[:limit]
            else:
                places = sorted(place for queue in names for place in space.leased[queue])
                rows = [row for _, _, job_id in places if (row := space.rows[job_id]).worker == worker][:limit]
            self._reap(space, rows, at)
            self._wake()
            return len(rows)

    @staticmethod
    def _reap(space: Space, rows: Sequence[Row], now: int) -> None:
        for row in rows:
            space.end(row, transition.after_expiry(row.held, now), EXPIRED, now)

    # Around them ------------------------------------------------------------------------------------------------

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """See ``Driver.wait``: on any change since this thread's last reserve, when a job comes due or a lease ends."""
        names = self._validation.check_wait(queues, timeout)
        deadline = monotonic() + timeout
        with self._changed:
            self._open()
            seen = getattr(self._seen, "changes", -1)
            while self._memory.changes == seen and (left := deadline - monotonic()) > 0:
                space, at = self._open(), self._memory.clock.now()
                heads = [line[0][0] for lane, line in space.waiting.items() if line and lane.queue in names]
                expiries = [line[0][0] for queue, line in space.leased.items() if line and queue in names]
                coming = [(instant - at) / SECOND for instant in (*heads, *expiries) if instant > at]
                if not self._changed.wait(min([left, *coming])):
                    return

    def space(self, name: str) -> MemoryDriver:
        """See ``Driver.space``."""
        return type(self)(caller_clock=self.caller_clock, space=name, memory=self._memory)

    def joined(self, connection: object) -> NoReturn:  # noqa: ARG002 - of the contract
        """There is no transaction to join."""
        raise Unsupported("memory", Feature.JOINED, self.capabilities.gaps[Feature.JOINED])

    def close(self) -> None:
        """See ``Driver.close``."""
        with self._changed:
            self._memory.closed = True
            self._changed.notify_all()


_named: WeakValueDictionary[str, Memory] = WeakValueDictionary()


def open_url(url: SplitResult, *, space: str, caller_clock: bool, clock: Clock | None) -> MemoryDriver:
    """``memory://`` is a new store; ``memory://name`` is the same one for all of this process while one holds it."""
    options(url, {})
    if not url.netloc:
        return MemoryDriver(clock, caller_clock=caller_clock, space=space)
    memory = _named.get(url.netloc)
    if memory is None or memory.closed:
        memory = _named[url.netloc] = Memory(clock)
    return MemoryDriver(caller_clock=caller_clock, space=space, memory=memory)
