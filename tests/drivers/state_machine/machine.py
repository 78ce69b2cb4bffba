"""The state machine: producers, workers and operators that call a driver and the oracle in any order.

Every lease ever returned is tried again with every verb. The clock stands still, moves a little, or moves to within a
microsecond of the next deadline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from msgspec.structs import replace

from holdfast.clock import DAY, HOUR
from holdfast.drivers.capabilities import Feature
from holdfast.model.lease import Lease, Note
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Settlement
from tests.drivers.state_machine.compared_machine import ComparedMachine, make_settlement, to_int
from tests.drivers.state_machine.comparison import (
    LeasePair,
    MakeChange,
    MakeSettlement,
    Side,
    VersionPair,
)
from tests.drivers.state_machine.strategies import (
    DEFAULT_SETTLEMENT,
    KIND,
    LEASE_LENGTHS,
    QUEUES,
    TYPES,
    WORKERS,
    ClockMove,
    Fields,
    change_fields,
    changed_settings,
    clock_moves,
    job_fields,
    notes,
    operator_calls,
    queue_settings,
    recent_index,
    recent_indexes,
    reserve_rules,
    settlement_fields,
    verbs,
)


def _key(drawn: Mapping[str, object]) -> Hashable:
    return str(drawn["key"])


class LeaseMachine(ComparedMachine):
    """Jobs, leases, limits and the registry; the domains run in order of arrival, and never halt."""

    # Producers ------------------------------------------------------------------------------------------------------

    @initialize(drawn=st.lists(job_fields, min_size=2, max_size=6))
    def enqueue_first_jobs(self, drawn: list[Fields]) -> None:
        """Start with a few jobs."""
        self.compared.enqueue([self.record(fields) for fields in drawn])

    @rule(
        drawn=st.lists(job_fields, min_size=1, max_size=3),
        twice=st.booleans(),
        replace_dead=st.booleans(),
        move=clock_moves,
    )
    def enqueue(self, drawn: list[Fields], twice: bool, replace_dead: bool, move: ClockMove) -> None:  # noqa: FBT001
        """Enqueue new jobs, or replace dead ones; sometimes the first record appears twice in the batch."""
        self.move_clock(move)
        records = [self.record(fields) for fields in drawn]
        can_replace = replace_dead and all(record.offset is None for record in records)
        self.compared.enqueue([*records, records[0]] if twice else records, replace_dead=can_replace)

    @rule(index=recent_index, drawn=job_fields, invalid=st.booleans(), move=clock_moves)
    def enqueue_again(self, index: int, drawn: Fields, invalid: bool, move: ClockMove) -> None:  # noqa: FBT001
        """Enqueue an id that was accepted before, or a batch with one invalid record."""
        self.move_clock(move)
        known = self.record({**drawn, "id": self.job_ids([index])[0]})
        if invalid:
            records = [self.record(drawn), known, self.record({**drawn, "max_attempts": 0})]
            self.compared.assert_enqueue_refused(records)
        else:
            self.compared.enqueue([known])

    # Workers --------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.has_ready_jobs())
    @rule(worker=st.sampled_from(WORKERS), move=clock_moves)
    def reserve(self, worker: str, move: ClockMove) -> None:
        """Reserve one job with a long lease."""
        self.move_clock(move)
        self.compared.reserve(QUEUES, limit=1, lease_for=HOUR, worker=worker, types=None)

    @rule(
        queues=st.sampled_from([QUEUES, QUEUES[:1], QUEUES[1:], [*QUEUES, QUEUES[0]]]),
        limit=st.sampled_from([5, 2, 1]),
        lease_for=st.sampled_from(LEASE_LENGTHS),
        types=st.sampled_from([None, None, None, TYPES[:1], TYPES[1:], TYPES]),
        rules=reserve_rules,
        move=clock_moves,
    )
    def reserve_batch(  # noqa: PLR0917 - one argument per strategy
        self, queues: list[str], limit: int, lease_for: int, types: list[str] | None, rules: Fields, move: ClockMove
    ) -> None:
        """Reserve several jobs of some queues and types."""
        self.move_clock(move)
        self.compared.reserve(queues, limit=limit, lease_for=lease_for, worker=WORKERS[0], types=types, **rules)

    @precondition(lambda self: self.compared.leases)
    @rule(indexes=recent_indexes, move=clock_moves)
    def report_outage(self, indexes: list[int], move: ClockMove) -> None:
        """Report any leases as lost in an outage, expired or not."""
        self.move_clock(move)
        self.compared.report_outage([self.lease(index) for index in indexes])

    @precondition(lambda self: self.compared.leases)
    @rule(indexes=recent_indexes, lease_for=st.sampled_from(LEASE_LENGTHS), note=st.none() | notes, move=clock_moves)
    def extend(self, indexes: list[int], lease_for: int, note: Note | None, move: ClockMove) -> None:
        """Extend any leases, valid or not."""
        self.move_clock(move)
        pairs = [self.lease(index) for index in indexes]
        notes_by_job = {} if note is None else {pairs[0].store.job_id: note}
        self.compared.extend(pairs, lease_for=lease_for, notes=notes_by_job)

    @precondition(lambda self: self.compared.leases)
    @rule(verb=verbs, index=recent_index, hold=st.booleans(), move=clock_moves)
    def settle(self, verb: str, index: int, hold: bool, move: ClockMove) -> None:  # noqa: FBT001 - drawn
        """Settle one lease with default fields; sometimes hold the limit key of the job."""
        self.move_clock(move)
        held = {"hold_key": True, "delay": HOUR} if hold and self.has(Feature.LIMIT_KEY) else {}
        self.compared.settle([(self.lease(index), make_settlement({**DEFAULT_SETTLEMENT, "verb": verb, **held}))])

    @precondition(lambda self: self.compared.leases)
    @rule(drawn=st.lists(settlement_fields, min_size=1, max_size=4), move=clock_moves)
    def settle_batch(self, drawn: list[Fields], move: ClockMove) -> None:
        """Settle any leases with any verbs; some with the token of another job, some twice in one batch."""
        self.move_clock(move)
        calls: list[tuple[LeasePair, MakeSettlement]] = []
        for fields in ({**one, "hold_key": one["hold_key"] and self.has(Feature.LIMIT_KEY)} for one in drawn):
            pair = self.lease(to_int(fields["lease"]))
            if fields["token_of"] is not None:
                other = self.lease(to_int(fields["token_of"]))
                pair = LeasePair(_with_token(pair.oracle, other.oracle), _with_token(pair.store, other.store))
            calls += [(pair, make_settlement(fields))] * to_int(fields["times"])
        self.compared.settle(calls)

    # Operators ------------------------------------------------------------------------------------------------------

    @rule(
        queue=st.sampled_from(QUEUES),
        type_=st.sampled_from([None, None, *TYPES]),
        drawn=queue_settings,
        only=changed_settings,
    )
    def configure(
        self, queue: str, type_: str | None, drawn: QueueSettings, only: tuple[str, ...] | None = None
    ) -> None:
        """Set pause, limits and rates of a queue, or of a type in it, and reserve under them."""
        if drawn.paused_until is not None:
            drawn = dataclasses.replace(drawn, paused_until=self.compared.now + drawn.paused_until)
        if drawn.held_until is not None:
            drawn = dataclasses.replace(drawn, held_until=self.compared.now + drawn.held_until)
        if type_ is not None or not self.has(Feature.LIMIT_KEY):  # a type has no limits by key
            drawn = dataclasses.replace(drawn, key_max_inflight=None, key_rate=None, key_burst=None)
        self.compared.configure(queue, drawn, type=type_, only=only)
        self.compared.reserve(QUEUES, limit=3, lease_for=HOUR, worker=WORKERS[1], types=None)

    @rule(call=operator_calls, indexes=recent_indexes, queues=st.sampled_from([None, QUEUES[:1]]), move=clock_moves)
    def operate(self, call: str, indexes: list[int], queues: list[str] | None, move: ClockMove) -> None:
        """Call an operator's function for any jobs, some of them twice; or reap, or trim."""
        self.move_clock(move)
        match call:
            case "cancel":
                self.compared.cancel(self.job_ids(indexes))
            case "requeue":
                self.compared.requeue(self.job_ids(indexes))
            case "purge":
                self.compared.purge(self.job_ids(indexes))
            case "reap":
                self.compared.reap(queues, worker=None, limit=1000)
            case "reap a few":
                self.compared.reap(queues, worker=None, limit=len(indexes))
            case "reap a worker":
                self.compared.reap(queues, worker=WORKERS[0], limit=1000)
            case _:
                days, ledger_for = (7, 30 * DAY) if queues is None else (1, HOUR)
                self.compared.trim(ended_for=days * DAY, ledger_for=ledger_for)
                self.compared.reread_ledger(indexes[0])

    # Registry -------------------------------------------------------------------------------------------------------

    def make_change(self, drawn: Fields) -> MakeChange:
        """Return a change that expects a version seen before, an absent row, or any version."""
        version: VersionPair = self.compared.versions[-1 - to_int(drawn["version"]) % len(self.compared.versions)]

        def make(side: Side) -> Change:
            fields = {**drawn, "kind": KIND, "version": version[side]}
            return Change(**fields)  # type: ignore[arg-type]  # drawn by field name

        return make

    @rule(drawn=st.lists(change_fields, min_size=1, max_size=3), move=clock_moves)
    def write(self, drawn: list[Fields], move: ClockMove) -> None:
        """Write changes, some of the same row; then read every row back."""
        self.move_clock(move)
        self.compared.write([self.make_change(fields) for fields in drawn])
        self.compared.read(KIND, ["a", "b", "a", "absent"])

    @rule(drawn=st.lists(change_fields, min_size=1, max_size=2, unique_by=_key), move=clock_moves)
    def write_together(self, drawn: list[Fields], move: ClockMove) -> None:
        """Write all changes or none; then read every row back."""
        self.move_clock(move)
        self.compared.write([self.make_change(fields) for fields in drawn], together=True)
        self.compared.read(KIND, ["a", "b"])

    @precondition(lambda self: self.compared.leases)
    @rule(index=recent_index, drawn=st.lists(change_fields, min_size=1, max_size=2, unique_by=_key), move=clock_moves)
    def ack_with_writes(self, index: int, drawn: list[Fields], move: ClockMove) -> None:
        """Ack with registry writes in the same transaction."""
        self.move_clock(move)
        changes = [self.make_change(fields) for fields in drawn]

        def make(lease: Lease, side: Side) -> Settlement:
            return Ack(lease, writes=tuple(make_change(side) for make_change in changes))

        self.compared.settle([(self.lease(index), make)])
        self.compared.read(KIND, ["a", "b"])

    @rule(
        drawn=st.lists(job_fields, min_size=1, max_size=2),
        changes=st.lists(change_fields, min_size=1, max_size=2, unique_by=_key),
        again=st.booleans(),
        move=clock_moves,
    )
    def enqueue_with_writes(
        self,
        drawn: list[Fields],
        changes: list[Fields],
        again: bool,  # noqa: FBT001 - drawn
        move: ClockMove,
    ) -> None:
        """Enqueue with registry writes in the same transaction; sometimes the first job exists already."""
        self.move_clock(move)
        records = [self.record(fields) for fields in drawn]
        if again:
            records[0] = replace(records[0], id=self.job_ids([0])[0])
        self.compared.enqueue_with_writes(records, [self.make_change(fields) for fields in changes])
        self.compared.read(KIND, ["a", "b"])

    @invariant()
    def store_and_oracle_are_equal(self) -> None:
        """See ``ComparedStore.check``."""
        self.compared.check()


def _with_token(lease: Lease, other: Lease) -> Lease:
    return Lease(job_id=lease.job_id, token=other.token, fence=other.fence, expires_at=lease.expires_at)
