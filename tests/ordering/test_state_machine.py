"""A Hypothesis state machine: random calls against the plain model, all invariants after every step."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.clock import SECOND, ManualClock, to_datetime
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.ordering import Acquired, WorkLease, chunks, overflow
from tests.ordering.plain_model import Options, PlainModel

OFFSETS = st.integers(0, 40)
OPTIONS = st.builds(
    Options,
    max_retries=st.integers(0, 2),
    strict=st.booleans(),
    halt=st.booleans(),
    lease_for=st.sampled_from([None, 10 * SECOND]),
    watermark_distance=st.sampled_from([None, None, 15]),
)


class WorkLeaseMachine(RuleBasedStateMachine):
    """One domain, used by two owners."""

    open_store = staticmethod(lambda: None)

    @initialize(options=OPTIONS)
    def begin(self, options: Options) -> None:
        self.model = PlainModel(options)
        self.clock = ManualClock()
        self.owners = (None,) if options.lease_for is None else ("w1", "w2")
        self.store = self.open_store()
        first = self.open_lease()
        # Without a store, the domains are those of one object; with one, of as many as there are processes.
        self.leases = [first] if self.store is None else [first, self.open_lease()]
        self.tokens = ["0.unknown"]
        self.before: tuple[int, ...] = ()
        self.monitor = None

    def open_lease(self) -> WorkLease:
        options = self.model.options
        return WorkLease(
            max_retries=options.max_retries,
            store=self.store,
            errors="return",
            strict=options.strict,
            on_exhausted="halt" if options.halt else "skip",
            lease_for=None if options.lease_for is None else timedelta(microseconds=options.lease_for),
            watermark_distance=options.watermark_distance,
            clock=self.clock,
        )

    @rule(offset=OFFSETS, owner=st.integers(0, 1), instance=st.integers(0, 1))
    def acquire(self, offset: int, owner: int, instance: int) -> None:
        caller = self.owners[owner % len(self.owners)]
        now = self.clock.now()
        backlog = list(self.model.backlog)
        wanted = self.model.try_acquire(offset, caller, now)
        answer = self.leases[instance % len(self.leases)].try_acquire("d", offset, owner=caller)
        if wanted is Acquired:
            assert type(answer) is Acquired
            assert answer.token not in self.tokens
            self.tokens.append(answer.token)
            self.model.grant(offset, caller, answer.token, now)
            assert self.model.backlog == [each for each in backlog if each != offset]  # only the head has left
        else:
            assert_same(answer, wanted)
            assert self.model.backlog[: len(backlog)] == backlog  # offsets are only appended

    @rule(offsets=st.lists(OFFSETS, max_size=12), is_good=st.lists(st.booleans(), min_size=12, max_size=12))
    def process(self, offsets: list[int], is_good: list[bool]) -> None:
        for offset, good in zip(offsets, is_good, strict=False):
            self.acquire(offset, 0, 0)
            if self.model.lease is not None:
                self.succeed(-1, 0) if good else self.fail(-1, 1)

    @rule(place=st.integers(-3, 50), instance=st.integers(0, 1))
    def succeed(self, place: int, instance: int) -> None:
        token = self.token(place)
        assert_same(self.leases[instance % len(self.leases)].succeed("d", token), self.model.succeed(token))

    @rule(place=st.integers(-3, 50), instance=st.integers(0, 1))
    def fail(self, place: int, instance: int) -> None:
        token, now = self.token(place), self.clock.now()
        assert_same(self.leases[instance % len(self.leases)].fail("d", token), self.model.fail(token, now))

    @precondition(lambda self: self.model.options.lease_for is not None)
    @rule(place=st.integers(-3, 50))
    def extend(self, place: int) -> None:
        token, now = self.token(place), self.clock.now()
        answer, wanted = self.leases[0].extend("d", token), self.model.extend(token, now)
        if wanted is None:
            assert answer == to_datetime(now + self.model.options.lease_for)
        else:
            assert_same(answer, wanted)

    @rule(skip=st.booleans())
    def resume(self, skip: bool) -> None:
        wanted = self.model.resume(skip=skip)
        try:
            answer: object = self.leases[0].resume("d", "skip" if skip else "retry")
        except InvalidInput as error:
            answer = error
        assert_same(answer, wanted)

    @rule(limit=OFFSETS)
    def set_watermark(self, limit: int) -> None:
        self.model.set_watermark(limit)
        assert self.leases[0].set_watermark("d", limit) <= limit

    @rule(seconds=st.sampled_from([1, 4, 9, 10, 11]))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds * SECOND)

    def token(self, place: int) -> str:
        """Return a token: mostly the latest one, sometimes an older one or one that never was."""
        return self.tokens[place] if -len(self.tokens) <= place < len(self.tokens) else self.tokens[-1]

    @invariant()
    def the_state_is_that_of_the_model(self) -> None:
        model, options = self.model, self.model.options
        state = self.leases[-1].state("d")
        assert state.processed == model.processed
        assert state.failed == model.failed
        assert list(state.backlog) == model.backlog
        assert state.halted == model.halted
        assert (state.lease is None) == (model.lease is None)
        if state.lease is not None and model.lease is not None:
            lease = state.lease
            assert (lease.offset, lease.retry_count, lease.owner) == (
                model.lease.offset,
                model.lease.retry_count,
                model.lease.owner,
            )
            assert lease.token == (model.lease.token if options.lease_for is None else None)
            assert lease.acquired_at == to_datetime(model.acquired_at[lease.offset])
            expires_at: datetime | None = None
            if options.lease_for is not None:
                expires_at = to_datetime(model.lease.renewed_at + options.lease_for)
            assert lease.expires_at == expires_at
            assert lease.has_lapsed == (expires_at is not None and to_datetime(self.clock.now()) >= expires_at)

    @invariant()
    def no_offset_is_in_two_places(self) -> None:
        state = self.leases[0].state("d")
        current = [] if state.lease is None else [state.lease.offset]
        places = [*state.processed, *state.failed, *state.backlog, *current]
        places += [] if state.halted is None else [state.halted]
        assert len(places) == len(set(places))

    @invariant()
    def the_monitor_is_never_replaced(self) -> None:
        if self.store is None:
            record = self.leases[0]._domains._records.get("d")
            if record is not None:
                self.monitor = self.monitor or (record, record.monitor)
                assert self.monitor == (record, record.monitor)


def assert_same(answer: object, wanted: object) -> None:
    if isinstance(wanted, HoldfastError):
        assert (type(answer), vars(answer)) == (type(wanted), vars(wanted))
    else:
        assert answer == wanted


@pytest.mark.parametrize(
    ("kind", "examples", "small_pages"),
    [
        ("local", 20, False),
        ("memory", 20, True),
        ("sqlite", 5, True),
        ("postgres", 3, True),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                ("local", 60, False),
                ("memory", 60, True),
                ("memory", 30, False),
                ("sqlite", 15, True),
                ("postgres", 10, True),
            )
        ),
    ],
)
def test_random_calls_answer_as_the_plain_model(kind, examples, small_pages, open_space, monkeypatch):
    if small_pages:  # so that the sets and the backlog have chunks
        monkeypatch.setattr(overflow, "MAX_RANGES", 4)
        monkeypatch.setattr(chunks, "SPAN", 8)

    class Machine(WorkLeaseMachine):
        open_store = staticmethod(lambda: open_space(kind))

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None, derandomize=True)
    )
