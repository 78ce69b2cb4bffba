"""One space: its rows, the indexes over them, and the moves between states.

Every move changes the row, the lanes, the leases, the domains and the ledger together. The driver holds the lock.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterator

from msgspec.structs import replace

from holdfast.drivers.memory.domains import Domain, Halt, Place, Wait
from holdfast.drivers.memory.ledger import Ledger
from holdfast.drivers.memory.registry import RegistryTable
from holdfast.drivers.memory.rows import Counter, Row, StoredKey, StoredLimitKey
from holdfast.errors import LeaseError
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Note, is_expired
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.order import Capacity, KeyCapacity, KeyLimit, KeyPlace, Lane, Limit, SettingsKey
from holdfast.model.queue_settings import Bucket, Gaps, OnExhausted, QueueSettings
from holdfast.model.transition import UNCOUNTED_VERB, Transition, refusal

_DEFAULT_SETTINGS = QueueSettings()

Position = tuple[int, int, str]  # (available_at or expires_at, seq, job id)


class Space:
    """All queues of one tenant."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}  # by job id, in any state
        self.lanes: defaultdict[Lane, list[Position]] = defaultdict(list)  # ready rows that have the turn, sorted
        self.leases: defaultdict[str, list[Position]] = defaultdict(list)  # rows in flight by queue, sorted
        self.domains: defaultdict[Place, Domain] = defaultdict(Domain)
        self.ended_offsets: defaultdict[tuple[Place, int], set[str]] = defaultdict(set)  # ended jobs that are kept
        self.waits: dict[Place, Wait] = {}  # of domains behind a gap
        self._arrived: set[Place] = set()  # domains in which the next reserve looks for gaps
        self._changed: set[Place] = set()  # domains in which the current verb looks for gaps
        self.keys: dict[tuple[str, str], StoredKey] = {}  # by queue and idempotency key
        self.settings: dict[SettingsKey, QueueSettings] = {}
        self.buckets: dict[SettingsKey, Bucket | None] = {}
        self.limit_keys: dict[KeyPlace, StoredLimitKey] = {}  # keys that are held, or have used their rate
        self.counter = Counter()
        self.registry = RegistryTable(self.counter)
        self.ledger = Ledger()
        self._seq = 0

    def next_numbers(self, count: int) -> int:
        """Take ``count`` numbers from the counter of the space and return the first."""
        return self.counter.take(count)

    # Ready jobs -------------------------------------------------------------------------------------------------

    def add(self, job: JobRecord, now: int, *, seq: int | None = None) -> Row:
        """Add a ready job at the end of its lane, or at the place ``seq`` of an earlier job."""
        if seq is None:
            self._seq += 1
            seq = self._seq
        row = Row(
            job=job,
            seq=seq,
            enqueued_at=now,
            available_at=now if job.run_at is None else job.run_at,
        )
        self.rows[job.id] = row
        place = self.place_of(job)
        if place is None:
            self._enter_lane(row)
        else:
            self.domains[place].add(job, seq)
            self.assign_turn(place)
            if self.settings_of(job.queue).gaps is Gaps.WAIT:
                self._arrived.add(place)
        return row

    def due(self, lane: Lane, now: int) -> Iterator[Position]:
        """Return the jobs of a lane that may run now, in order."""
        for position in self.lanes[lane]:
            if position[0] > now:
                return
            yield position

    def has_turn(self, row: Row) -> bool:
        """Whether the job is the one of its domain that may run (L11)."""
        place = self.place_of(row.job)
        return place is None or self.domains[place].turn == row.job.id

    def _enter_lane(self, row: Row) -> None:
        if self.has_turn(row):
            insort(self.lanes[row.lane], (row.available_at, row.seq, row.job.id))

    def _leave_lane(self, row: Row) -> None:
        if self.has_turn(row):
            _remove(self.lanes[row.lane], (row.available_at, row.seq, row.job.id))

    # Domains ----------------------------------------------------------------------------------------------------

    def place_of(self, job: JobRecord) -> Place | None:
        """Return the domain of a job; None if it has none."""
        return None if job.domain is None else (job.queue, job.domain)

    def assign_turn(self, place: Place) -> None:
        """Give the turn of a domain to the job that comes next, and take it from any other that is not in flight."""
        domain = self.domains[place]
        holder = None if domain.turn is None else self.rows[domain.turn]
        if holder is not None and holder.job.state is State.INFLIGHT:
            return
        wanted = domain.next_job(self.settings_of(place[0]).gaps)
        if wanted != domain.turn:
            if holder is not None:
                self._leave_lane(holder)
            domain.turn = wanted
            if wanted is not None:
                self._enter_lane(self.rows[wanted])

    def _pass_turn(self, row: Row) -> None:
        """Remove an ended job from its domain, which it may halt; then the next job gets the turn."""
        place = self.place_of(row.job)
        if place is None:
            return
        domain = self.domains[place]
        domain.remove(row.job, row.seq)
        if row.job.offset is not None:
            self.ended_offsets[place, row.job.offset].add(row.job.id)
        if self.halts(row):
            assert row.ended_at is not None
            domain.halt = Halt(row.job.id, row.ended_at)
        self._update(place)

    def halts(self, row: Row) -> bool:
        """Whether the end of this job stops its domain."""
        return row.job.state is State.DEAD and self.settings_of(row.job.queue).on_exhausted is OnExhausted.HALT

    def _return_to_lane(self, row: Row) -> None:
        """Make a job runnable again whose lease ended; a smaller offset that arrived meanwhile gets its turn."""
        place = self.place_of(row.job)
        if place is None:
            self._enter_lane(row)
        else:
            self.domains[place].turn = None
            self._update(place)

    def _update(self, place: Place) -> None:
        """Give the turn of a domain that has changed; forget the domain if it has neither jobs nor anything to keep."""
        if place in self.waits or self.settings_of(place[0]).gaps is Gaps.WAIT:
            self._changed.add(place)
        if self.domains[place].is_blank:
            del self.domains[place]
        else:
            self.assign_turn(place)

    def apply_gaps(self, queue: str) -> None:
        """Give the turns of all domains of a queue whose ``gaps`` may have changed."""
        for place in [place for place in self.domains if place[0] == queue]:
            self.assign_turn(place)
            self._arrived.add(place)

    def find_gaps(self, queues: Collection[str], now: int) -> None:
        """Look for gaps in the domains of these queues that have new jobs, and pass the gaps that are old enough."""
        arrived = {place for place in self._arrived if place[0] in queues}
        self._arrived -= arrived
        self._changed |= arrived
        self.update_waits(now)
        for place, pass_at in self.passes(queues):
            if is_expired(pass_at, now):
                domain = self.domains[place]
                domain.start = domain.jobs[0][0]
                del self.waits[place]
                self.assign_turn(place)

    def update_waits(self, now: int) -> None:
        """Store which of the domains that this verb changed wait for a missing offset; the others wait no more."""
        for place in self._changed:
            gap = self.gap_of(place)
            if gap is None:
                self.waits.pop(place, None)
            elif place not in self.waits or self.waits[place].offset != gap:
                self.waits[place] = Wait(gap, now)
        self._changed.clear()

    def gap_of(self, place: Place) -> int | None:
        """Return the missing offset that keeps a domain from running; None if nothing or something else does."""
        domain = self.domains.get(place)
        if domain is None or domain.halt is not None or domain.turn is not None:
            return None
        return domain.gap(self.settings_of(place[0]).gaps)

    def passes(self, queues: Collection[str]) -> list[tuple[Place, int]]:
        """Return the domains of these queues that will pass a gap, each with the instant from which on they do."""
        return [
            (place, wait.since + after)
            for place, wait in self.waits.items()
            if place[0] in queues and self.gap_of(place) == wait.offset
            if (after := self.settings_of(place[0]).gap_pass_after) is not None
        ]

    def resume(self, place: Place, *, retry: bool, position: int | None, now: int) -> bool:
        """Let a halted domain go on, and move its start; return whether either changed."""
        domain = self.domains[place]
        halt, domain.halt = domain.halt, None
        is_moved = position is not None and position != domain.start
        if position is not None:
            domain.start = position
        if halt is not None and retry and self.rows[halt.job_id].job.offset not in domain.by_offset:
            self._requeue(self.rows[halt.job_id], now, at_old_place=True)
        self._update(place)
        return halt is not None or is_moved

    def forget_domain(self, place: Place) -> bool:
        """Remove what a domain without open jobs remembers; return whether there was something."""
        domain = self.domains.get(place)
        if domain is None or domain.jobs or not domain.has_memory:
            return False
        del self.domains[place]
        return True

    # Leases -----------------------------------------------------------------------------------------------------

    def lease(self, row: Row, lease: Lease, worker: str, now: int, *, prefetched: bool) -> None:
        """Move a ready job in flight; its attempt is counted here (L7)."""
        self._leave_lane(row)
        row.job = replace(row.job, state=State.INFLIGHT, attempts=row.job.attempts + 1)
        row.token, row.fence, row.expires_at = lease.token, lease.fence, lease.expires_at
        row.worker, row.reserved_at, row.started_at, row.prefetched = worker, now, None, prefetched
        insort(self.leases[row.job.queue], (lease.expires_at, row.seq, row.job.id))

    def refusal(self, lease: Lease, now: int) -> LeaseError | None:
        """Return why a call with this lease is refused; None if it is valid (L5)."""
        row = self.rows.get(lease.job_id)
        return refusal(None if row is None else row.held, lease, now)

    def extend(self, row: Row, expires_at: int) -> None:
        """Move the end of a lease."""
        assert row.expires_at is not None
        _remove(self.leases[row.job.queue], (row.expires_at, row.seq, row.job.id))
        row.expires_at = expires_at
        insort(self.leases[row.job.queue], (expires_at, row.seq, row.job.id))

    def store_note(self, row: Row, note: Note) -> None:
        """Store what an attempt reported; fields of None leave the stored values unchanged."""
        stored = row.note or Note()
        row.started_at = row.started_at if note.started_at is None else note.started_at
        row.note = Note(
            progress=stored.progress if note.progress is None else note.progress,
            checkpoint=stored.checkpoint if note.checkpoint is None else note.checkpoint,
        )

    def expired(self, queues: list[str], now: int) -> list[Row]:
        """Return the rows whose leases have expired, oldest first."""
        positions = sorted(position for queue in queues for position in self._expired_in(queue, now))
        return [self.rows[job_id] for _, _, job_id in positions]

    def _expired_in(self, queue: str, now: int) -> Iterator[Position]:
        for position in self.leases[queue]:
            if not is_expired(position[0], now):
                return
            yield position

    def leased_by(self, worker: str, queues: list[str]) -> list[Row]:
        """Return the rows that a worker has leased, oldest expiry first."""
        positions = sorted(position for queue in queues for position in self.leases[queue])
        return [row for _, _, job_id in positions if (row := self.rows[job_id]).worker == worker]

    def end(self, row: Row, transition: Transition, verb: str, now: int, started_at: int | None = None) -> None:
        """End a lease: write the ledger, change the row, and return the job to its lane or pass the turn on."""
        assert row.expires_at is not None
        _remove(self.leases[row.job.queue], (row.expires_at, row.seq, row.job.id))
        row.started_at = row.started_at if started_at is None else started_at
        self.write_ledger(
            row,
            ending=transition.ending,
            state=transition.state,
            now=now,
            detail=transition.detail,
            error=transition.error,
        )
        row.job = transition.apply(row.job)
        row.available_at, row.released_for = transition.available_at, transition.released_for
        row.suspect = transition.suspect
        row.last_verb, row.last_token = verb, row.token
        row.clear_lease()
        if transition.state.has_ended:
            row.ended_at = now
            self._pass_turn(row)
        else:
            self._return_to_lane(row)

    def take_crash_back(self, row: Row) -> None:
        """Count one crash fewer: the store was out of reach when the last lease expired."""
        is_ready = row.job.state is State.READY
        if is_ready:
            self._leave_lane(row)
        row.job = replace(row.job, crashes=max(0, row.job.crashes - 1))
        row.last_verb = UNCOUNTED_VERB
        if is_ready:
            self._enter_lane(row)

    # Changes without a lease ------------------------------------------------------------------------------------

    def cancel(self, row: Row, now: int) -> None:
        """Cancel a ready job."""
        self._leave_lane(row)
        self.write_ledger(row, ending=Ending.CANCELLED, state=State.CANCELLED, now=now)
        row.job = replace(row.job, state=State.CANCELLED)
        row.ended_at = now
        self._pass_turn(row)

    def requeue(self, row: Row, now: int) -> bool:
        """Make an ended job ready again; return False if an open job has its offset. A job that halted retries."""
        place = self.place_of(row.job)
        domain = None if place is None else self.domains[place]
        if domain is not None and row.job.offset in domain.by_offset:
            return False
        halts = domain is not None and domain.halt is not None and domain.halt.job_id == row.job.id
        if domain is not None and halts:
            domain.halt = None
        self._requeue(row, now, at_old_place=halts)
        return True

    def _requeue(self, row: Row, now: int, *, at_old_place: bool) -> None:
        """Add an ended job like a new job, but with its id, its notes and its last error."""
        self._forget_ended(row)
        self.write_ledger(row, ending=Ending.REQUEUED, state=State.READY, now=now)
        job = replace(
            row.job,
            state=State.READY,
            attempts=0,
            crashes=0,
            run_at=None,
            dead_reason=None,
            dead_at=None,
        )
        new_row = self.add(job, now, seq=row.seq if at_old_place else None)
        new_row.enqueued_at, new_row.note = row.enqueued_at, row.note
        new_row.last_verb, new_row.last_token = row.last_verb, row.last_token

    def purge(self, row: Row, now: int) -> None:
        """Remove an ended job; its ledger rows stay."""
        self.write_ledger(row, ending=Ending.PURGED, state=None, now=now)
        self.remove(row)
        place = self.place_of(row.job)
        if place is not None and place in self.domains:
            domain = self.domains[place]
            if domain.halt is not None and domain.halt.job_id == row.job.id:
                domain.halt = None
                self._update(place)

    def remove(self, row: Row) -> None:
        """Remove the row of an ended job. Its offset stays ended."""
        self._forget_ended(row)
        del self.rows[row.job.id]

    def discard(self, row: Row) -> None:
        """Remove a job in any state, without a ledger row: its whole space is removed."""
        if row.job.state is State.READY:
            self._leave_lane(row)
        elif row.job.state is State.INFLIGHT:
            assert row.expires_at is not None
            _remove(self.leases[row.job.queue], (row.expires_at, row.seq, row.job.id))
        if not row.job.state.has_ended:
            row.job = replace(row.job, state=State.CANCELLED)
            self._pass_turn(row)
        self.remove(row)

    def clear(self) -> None:
        """Forget everything but the numbers that were used."""
        blank = Space()
        blank.counter, blank._seq = self.counter, self._seq
        blank.registry, blank.ledger = self.registry, self.ledger
        self.__dict__.update(vars(blank))

    def _forget_ended(self, row: Row) -> None:
        place = self.place_of(row.job)
        if place is not None and row.job.offset is not None:
            self.ended_offsets[place, row.job.offset].discard(row.job.id)
            if not self.ended_offsets[place, row.job.offset]:
                del self.ended_offsets[place, row.job.offset]

    def write_ledger(
        self, row: Row, *, ending: Ending, state: State | None, now: int, detail: str = "", error: str = ""
    ) -> None:
        """Append a ledger row; called before the row of the job changes."""
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

    # Keys and settings ------------------------------------------------------------------------------------------

    def is_taken(self, key: StoredKey, now: int) -> bool:
        """Whether an idempotency key is taken: its window has not ended, or its job is open, or ready (L12)."""
        if not is_expired(key.until, now):
            return True
        row = self.rows.get(key.job_id)
        if row is None:
            return False
        return row.job.state is State.READY if key.while_queued else not row.job.state.has_ended

    def settings_of(self, queue: str, type_: str | None = None) -> QueueSettings:
        """Return the settings of a queue or of a type in it; the defaults if none were configured."""
        return self.settings.get((queue, type_), _DEFAULT_SETTINGS)

    def is_limited(self, queues: Collection[str], now: int) -> bool:
        """Whether a pause or a limit of these queues may keep due jobs from being reserved."""
        return any(settings.is_limiting(now) for (queue, _), settings in self.settings.items() if queue in queues)

    def capacity(self, queues: list[str], now: int) -> Capacity:
        """Return how many jobs the settings of these queues allow now."""
        capacity = Capacity()
        for key, settings in self.settings.items():
            queue, type_ = key
            if queue in queues:
                inflight = [self.rows[job_id] for _, _, job_id in self.leases[queue]]
                count = sum(type_ in (None, row.job.type) for row in inflight)
                bucket = self.buckets.get(key)
                left = settings.allowance(inflight=count, bucket=bucket, now=now)
                capacity.limits[key] = Limit(settings, bucket, left)
        return capacity

    def key_capacity(self, queues: list[str], now: int) -> KeyCapacity | None:
        """Return how many jobs the limits by key allow now; None if these queues have no such limits."""
        held = {queue for queue, _ in self.limit_keys}
        if not any(queue in held or self.settings_of(queue).has_key_limits for queue in queues):
            return None
        return KeyCapacity(lambda place: self.key_limit(place, now))

    def key_limit(self, place: KeyPlace, now: int) -> KeyLimit:
        """Return how many jobs of one key its limits allow now."""
        queue, key = place
        stored = self.limit_keys.get(place, StoredLimitKey())
        settings = self.settings_of(queue).of_key(stored.held_until)
        count = sum(self.rows[job_id].job.limit_key == key for _, _, job_id in self.leases[queue])
        left = settings.allowance(inflight=count, bucket=stored.bucket, now=now)
        return KeyLimit(settings, stored.bucket, left, inflight=count)

    def store_buckets(self, keys: KeyCapacity, now: int) -> None:
        """Store what is left of the rates of the keys of which jobs were taken."""
        for place, limit in keys.used():
            if limit.taken and limit.settings.rate is not None:
                self.limit_keys.setdefault(place, StoredLimitKey()).bucket = limit.bucket_after(now)

    def hold_key(self, row: Row, until: int) -> None:
        """Reserve no job with the limit key of this one before an instant; a longer hold stays."""
        if row.job.limit_key is not None:
            stored = self.limit_keys.setdefault((row.job.queue, row.job.limit_key), StoredLimitKey())
            stored.held_until = max(until, stored.held_until or until)

    def end_holds(self, queue: str) -> None:
        """End the holds of all keys of a queue."""
        for (its_queue, _), stored in self.limit_keys.items():
            if its_queue == queue:
                stored.held_until = None

    def forget_idle_keys(self, now: int) -> None:
        """Remove the keys that are not held and whose rate is unused again."""
        for (queue, key), stored in list(self.limit_keys.items()):
            settings = self.settings_of(queue).of_key(stored.held_until)
            if settings.is_idle(stored.bucket, now):
                del self.limit_keys[queue, key]


def _remove(positions: list[Position], position: Position) -> None:
    """Remove a position from a sorted list; it must be in the list."""
    index = bisect_left(positions, position)
    assert positions[index] == position, f"{position} should be at {index}"
    del positions[index]
