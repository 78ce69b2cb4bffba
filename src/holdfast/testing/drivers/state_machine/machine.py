"""The state machine: producers, workers and operators that call a driver and the oracle in any order.

Every lease ever returned is tried again with every verb. The clock stands still, moves a little, or moves to within a
microsecond of the next deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.clock import DAY, HOUR
from holdfast.drivers.contract import Feature, Gaps, OnExhausted, ResumeAction, Store
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Note
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.state_machine.comparison import (
    ComparedStore,
    LeasePair,
    MakeChange,
    MakeSettlement,
    Side,
    VersionPair,
)
from holdfast.testing.drivers.state_machine.strategies import (
    DEFAULT_SETTLEMENT,
    DOMAINS,
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
    follow_rules,
    job_fields,
    notes,
    operator_calls,
    positions,
    queue_settings,
    recent_index,
    recent_indexes,
    reserve_rules,
    settlement_fields,
    verbs,
)


def _key(drawn: Mapping[str, object]) -> Hashable:
    return str(drawn["key"])


class LeaseMachine(RuleBasedStateMachine):
    """The rules; ``make_state_machine`` sets the store."""

    open_store: ClassVar[Callable[[], Store]]

    def __init__(self) -> None:
        super().__init__()
        self.compared = ComparedStore(type(self).open_store())
        self.record_count = 0

    # Time and choice ------------------------------------------------------------------------------------------------

    def move_clock(self, move: ClockMove) -> None:
        """Move the clock; it never moves back."""
        if isinstance(move, int):
            self.compared.now += move
            return
        index, offset = move
        deadlines = self._deadlines()
        if deadlines:
            self.compared.now = max(self.compared.now, deadlines[index % len(deadlines)] + offset)

    def _deadlines(self) -> list[int]:
        """Return the instants from now on at which the answer of a call may change."""
        state, now = self.compared.oracle.state, self.compared.now
        instants: set[int] = set()
        for job in state.jobs.values():
            instants.add(job.available_at if job.lease is None else job.lease.expires_at)
        instants.update(key.until for key in state.keys.values())
        instants.update(s.paused_until for s in state.settings.values() if s.paused_until is not None)
        instants.update(s.held_until for s in state.settings.values() if s.held_until is not None)
        instants.update(state.key_holds.values())
        for place, (_, since) in state.waits.items():
            settings = state.settings.get((place[0], None), QueueSettings())
            instants.update(since + after for after in (settings.gap_report_after, settings.gap_pass_after) if after)
        instants.update(entry.expires_at for entry in state.registry.values() if entry.expires_at is not None)
        return sorted(instant for instant in instants if instant >= now)

    def lease(self, index: int) -> LeasePair:
        """Return one of all leases ever returned; 0 is the latest."""
        return self.compared.leases[-1 - index % len(self.compared.leases)]

    def job_ids(self, indexes: list[int]) -> list[str]:
        """Return ids that were accepted, 0 is the latest; the oldest index is an id that was never enqueued."""
        known = ["never-enqueued", *self.compared.accepted_ids]
        return [known[-1 - index % len(known)] for index in indexes]

    def has(self, feature: Feature) -> bool:
        """Whether the store supports the feature."""
        return self.compared.store.capabilities.has(feature)

    @property
    def has_key_limits(self) -> bool:
        """Whether the store limits jobs by their keys."""
        return self.has(Feature.KEY_LIMITS)

    def has_ready_jobs(self) -> bool:
        """Whether a job is ready, now or later."""
        return any(job.state is State.READY for job in self.compared.oracle.state.jobs.values())

    def record(self, drawn: Fields) -> JobRecord:
        """Return a record with a new id; equal fields make equal payloads."""
        self.record_count += 1
        payload = str(drawn["priority"]).encode()
        if drawn["domain"] is None or not self.has(Feature.OFFSETS):
            drawn = {**drawn, "offset": None}
        if drawn["run_at"] is not None:
            drawn = {**drawn, "run_at": self.compared.now + _int(drawn["run_at"])}
        fields: Fields = {
            "id": f"j{self.record_count:04}",
            "payload": payload,
            "created_at": self.compared.now,
            **drawn,
        }
        return JobRecord(**fields)  # type: ignore[arg-type]  # drawn by field name

    # Producers ------------------------------------------------------------------------------------------------------

    @initialize(drawn=st.lists(job_fields, min_size=2, max_size=6))
    def enqueue_first_jobs(self, drawn: list[Fields]) -> None:
        """Start with a few jobs."""
        self.compared.enqueue([self.record(fields) for fields in drawn])

    @rule(drawn=st.lists(job_fields, min_size=1, max_size=3), twice=st.booleans(), move=clock_moves)
    def enqueue(self, drawn: list[Fields], twice: bool, move: ClockMove) -> None:  # noqa: FBT001
        """Enqueue new jobs; sometimes the first record appears twice in the batch."""
        self.move_clock(move)
        records = [self.record(fields) for fields in drawn]
        self.compared.enqueue([*records, records[0]] if twice else records)

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
        notes_by_job = None if note is None else {pairs[0].store.job_id: note}
        self.compared.extend(pairs, lease_for=lease_for, notes=notes_by_job)

    @precondition(lambda self: self.compared.leases)
    @rule(verb=verbs, index=recent_index, move=clock_moves)
    def settle(self, verb: str, index: int, move: ClockMove) -> None:
        """Settle one lease with default fields."""
        self.move_clock(move)
        self.compared.settle([(self.lease(index), _make_settlement({**DEFAULT_SETTLEMENT, "verb": verb}))])

    @precondition(lambda self: self.compared.leases)
    @rule(drawn=st.lists(settlement_fields, min_size=1, max_size=4), move=clock_moves)
    def settle_batch(self, drawn: list[Fields], move: ClockMove) -> None:
        """Settle any leases with any verbs; some with the token of another job, some twice in one batch."""
        self.move_clock(move)
        calls: list[tuple[LeasePair, MakeSettlement]] = []
        for fields in ({**one, "hold_key": one["hold_key"] and self.has_key_limits} for one in drawn):
            pair = self.lease(_int(fields["lease"]))
            if fields["token_of"] is not None:
                other = self.lease(_int(fields["token_of"]))
                pair = LeasePair(_with_token(pair.oracle, other.oracle), _with_token(pair.store, other.store))
            calls += [(pair, _make_settlement(fields))] * _int(fields["times"])
        self.compared.settle(calls)

    @precondition(lambda self: self.compared.leases and self.has(Feature.SETTLE_AND_RESERVE))
    @rule(verb=verbs, indexes=recent_indexes, followed=st.integers(1, 4), rules=follow_rules, move=clock_moves)
    def settle_and_reserve(self, verb: str, indexes: list[int], followed: int, rules: Fields, move: ClockMove) -> None:
        """Settle any leases, and lease the next jobs of the domains of the first ones."""
        self.move_clock(move)
        make = _make_settlement({**DEFAULT_SETTLEMENT, "verb": verb})
        pairs = [self.lease(index) for index in indexes]
        follow = {pair.store.job_id for pair in pairs[:followed]}
        self.compared.settle_and_reserve([(pair, make) for pair in pairs], follow=follow, **rules)

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
        """Set pause, limits and rates of a queue, or of a type in it."""
        if drawn.paused_until is not None:
            drawn = replace(drawn, paused_until=self.compared.now + drawn.paused_until)
        if drawn.held_until is not None:
            drawn = replace(drawn, held_until=self.compared.now + drawn.held_until)
        if type_ is not None or not self.has_key_limits:  # a type has no limits by key
            drawn = replace(drawn, key_max_inflight=None, key_rate=None, key_burst=None)
        if type_ is not None or not self.has(Feature.HALT):
            drawn = replace(drawn, on_exhausted=OnExhausted.SKIP)
        if type_ is not None or not self.has(Feature.GAPS):
            drawn = replace(drawn, gaps=Gaps.PASS, gap_report_after=None, gap_pass_after=None)
        self.compared.configure(queue, drawn, type=type_, only=only)

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

    @precondition(lambda self: self.has(Feature.HALT) and self.has(Feature.GAPS))
    @rule(
        queue=st.sampled_from(QUEUES),
        domain=st.sampled_from(DOMAINS),
        action=st.sampled_from(ResumeAction),
        position=positions,
        move=clock_moves,
    )
    def resume(self, queue: str, domain: str, action: ResumeAction, position: int | None, move: ClockMove) -> None:
        """Resume any domain, halted or not, and sometimes move the offset that it waits for."""
        self.move_clock(move)
        self.compared.resume(queue, domain, action, position)

    @precondition(lambda self: self.has(Feature.OFFSETS))
    @rule(queue=st.sampled_from(QUEUES), domain=st.sampled_from(DOMAINS))
    def forget_domain(self, queue: str, domain: str) -> None:
        """Forget any domain, with open jobs or without."""
        self.compared.forget_domain(queue, domain)

    # Registry -------------------------------------------------------------------------------------------------------

    def make_change(self, drawn: Fields) -> MakeChange:
        """Return a change that expects a version seen before, an absent row, or any version."""
        version: VersionPair = self.compared.versions[-1 - _int(drawn["version"]) % len(self.compared.versions)]

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


def _make_settlement(drawn: Fields) -> MakeSettlement:
    """Return a settlement with those drawn fields that its verb has."""
    common = {"detail": drawn["detail"], "started_at": drawn["started_at"]}
    delay = {"delay": drawn["delay"]}
    delay_or_run_at = delay if drawn["run_at"] is None else {"run_at": drawn["run_at"]}
    error = {"error": drawn["error"]}

    def make(lease: Lease, side: Side) -> Settlement:  # noqa: ARG001 - only versions differ by side
        match drawn["verb"]:
            case "ack":
                return Ack(lease, result=b"7", **common)  # type: ignore[arg-type]  # drawn by field name
            case "retry":
                flags = {"crashed": drawn["crashed"], "hold_key": drawn["hold_key"]}
                return Retry(lease, **flags, **delay_or_run_at, **error, **common)  # type: ignore[arg-type]
            case "fail":
                return Fail(lease, reason="failed by the test", **error, **common)  # type: ignore[arg-type]
            case _:
                return Release(lease, budget=drawn["budget"], **delay, **common)  # type: ignore[arg-type]

    return make


def _with_token(lease: Lease, other: Lease) -> Lease:
    return Lease(job_id=lease.job_id, token=other.token, fence=other.fence, expires_at=lease.expires_at)


def _int(drawn: object) -> int:
    assert isinstance(drawn, int)
    return drawn


def make_state_machine(open_store: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """Return the state machine for one kind of store.

    ``open_store`` returns an empty space, opened with ``caller_clock=True``. The store needs every feature except
    those of ordered domains and joined transactions. The machine does not close the store.
    """
    return type("LeaseMachine", (LeaseMachine,), {"open_store": staticmethod(open_store)})


def run_state_machine(
    open_store: Callable[[], Store],
    *,
    max_examples: int = 100,
    steps: int = 50,
    derandomize: bool = True,
    shrink: bool = True,
) -> None:
    """Run ``max_examples`` sequences of ``steps`` calls; raise the first difference and print the calls that led to it.

    With ``derandomize=False`` every run draws other sequences; use this for long runs.
    """
    phases = [Phase.explicit, Phase.generate] + ([Phase.shrink] if shrink else [])
    run_state_machine_as_test(
        make_state_machine(open_store),
        settings=settings(
            max_examples=max_examples,
            stateful_step_count=steps,
            derandomize=derandomize,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=False,
        ),
    )
