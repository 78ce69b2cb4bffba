"""A Hypothesis state machine that plays producers, workers and operators against a driver and the oracle at once.

Queues, types, domains, keys and workers are few, so that they collide; every lease ever given is tried again with every
verb; time stands still, moves a little, or lands within a microsecond of the next deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import ClassVar, TypeAlias

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

from holdfast.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from holdfast.drivers.contract import Store
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Note
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.comparison import START, MakeChange, MakeSettlement, Pair, SideBySide, Version

QUEUES = ["mail", "reports"]
TYPES = ["send", "build"]
WORKERS = ["ada", "bob"]
KEYS = ["k1", "k2"]
KIND = "lock"
LEASES = [MINUTE, MINUTE, HOUR, SECOND, MILLISECOND, 1]
DELAYS = [0, 0, 1, SECOND, HOUR]

# How the time of a call differs from that of the call before: by a length, or to beside the nth deadline.
Move: TypeAlias = int | tuple[int, int]
Draft: TypeAlias = dict[str, object]  # drawn fields of a record, a settlement or a change

# Which one, counted from the latest: mostly something that is still going on, often enough something long over.
recent = st.sampled_from([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7, 10, 15, 25, 40, 70])
some = st.lists(recent, min_size=1, max_size=4)
# Mostly time stands still, or no lease would live long enough to be worked under. (Weights are repeated values: one_of
# takes equal strategies for one.)
_BESIDE: list[Move] = [(which, beside) for which in (0, 0, 1, 2) for beside in (-1, 0, 1)]
_ONWARD: list[Move] = [1, 7, MILLISECOND, SECOND, 61 * SECOND, HOUR, DAY + 1]
moves = st.sampled_from([*[0] * 60, *_BESIDE, *_ONWARD])
drafts = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "queue": st.sampled_from(QUEUES),
        "priority": st.sampled_from([0, 0, 5, 9]),
        "domain": st.sampled_from([None, None, "d1", "d2"]),
        "idempotency_key": st.sampled_from([None, None, *KEYS]),
        "run_at": st.sampled_from([None, None, None, None, -SECOND, 0, SECOND, HOUR]),  # from now
        "max_attempts": st.sampled_from([25, 3, 2, 1]),
        "max_crashes": st.sampled_from([3, 1, None]),
    },
    optional={
        "timeout": st.just(SECOND),
        "name": st.just("Invoice 7 für Zoë"),
        "meta": st.just({"trace": "00-ab", "n": 1}),
        "webhook": st.just("https://example.org/done"),
        "signature": st.just("v1.k.0123"),
        "requested_run_at": st.just(START + SECOND),
        "last_error": st.just("imported"),
    },
)
notes = st.builds(
    Note,
    started_at=st.sampled_from([None, START + 3]),
    progress=st.sampled_from([None, b"50"]),
    checkpoint=st.sampled_from([None, b"page 2", b"page 3"]),
)
queue_settings = st.one_of(
    st.just(QueueSettings()),
    st.builds(QueueSettings, paused_until=st.sampled_from([SECOND, HOUR])),  # from now
    st.builds(QueueSettings, max_inflight=st.integers(1, 2), dedupe_window=st.sampled_from([1, SECOND, DAY])),
    # Whole rates only: with others a driver may be a millionth of a job behind the oracle's fractions.
    st.builds(QueueSettings, rate=st.sampled_from([1, 2, 3, 7.0]), burst=st.sampled_from([None, 1, 2])),
)
endings = st.sampled_from(["ack", "retry", "release", "fail", "ack", "retry"])
tools = st.sampled_from(
    ["cancel", "requeue", "purge", "reap", "reap a few", "reap a worker", "trim", "cancel", "requeue"]
)
settlements = st.fixed_dictionaries(
    {
        "lease": recent,
        "stolen": st.sampled_from([None, None, None, None, 0, 1, 3]),
        "verb": endings,
        "delay": st.sampled_from(DELAYS),
        "run_at": st.sampled_from([None, None, START, START + MINUTE]),
        "budget": st.sampled_from([DAY, SECOND, 0]),
        "error": st.sampled_from(["", "boom"]),
        "crashed": st.booleans(),
        "detail": st.sampled_from(["", "by hand"]),
        "started_at": st.sampled_from([None, START + 5]),
        "times": st.sampled_from([1, 1, 1, 2]),
    }
)
changes = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b"]),
        "value": st.sampled_from([b"1", b"2", None]),
        "version": recent,
        "ttl": st.sampled_from([None, 1, SECOND, DAY]),
    }
)


PLAIN: Draft = {
    "delay": 0,
    "run_at": None,
    "budget": DAY,
    "error": "boom",
    "crashed": False,
    "detail": "",
    "started_at": None,
}


def _number(drawn: object) -> int:
    assert isinstance(drawn, int)
    return drawn


def _key(draft: Mapping[str, object]) -> Hashable:
    return str(draft["key"])


class LeaseMachine(RuleBasedStateMachine):
    """The rules; ``lease_machine`` gives it a store."""

    open_store: ClassVar[Callable[[], Store]]

    def __init__(self) -> None:
        super().__init__()
        self.both = SideBySide(type(self).open_store())
        self.made = 0

    # Time and choice --------------------------------------------------------------------------------------------

    def pass_time(self, move: Move) -> None:
        """Time never steps back: a deadline that is over leaves it where it is."""
        if isinstance(move, int):
            self.both.now += move
            return
        which, beside = move
        coming = self._deadlines()
        if coming:
            self.both.now = max(self.both.now, coming[which % len(coming)] + beside)

    def _deadlines(self) -> list[int]:
        model, now = self.both.model, self.both.now
        found: set[int] = set()
        for kept in model.jobs.values():
            found.add(kept.available_at if kept.lease is None else kept.lease.expires_at)
        found.update(key.until for key in model.keys.values())
        found.update(s.paused_until for s in model.settings.values() if s.paused_until is not None)
        found.update(entry.expires_at for entry in model.registry.values() if entry.expires_at is not None)
        return sorted(instant for instant in found if instant >= now)

    def lease(self, which: int) -> Pair:
        """One of all leases ever given; 0 is the latest."""
        return self.both.leases[-1 - which % len(self.both.leases)]

    def ids(self, which: list[int]) -> list[str]:
        """Ids ever accepted, 0 the latest; and one that never was."""
        known = ["never-enqueued", *self.both.accepted]
        return [known[-1 - i % len(known)] for i in which]

    def waiting(self) -> bool:
        """Whether there is anything to reserve, now or later."""
        return any(kept.state is State.READY for kept in self.both.model.jobs.values())

    def record(self, draft: Draft) -> JobRecord:
        """A record under a fresh id; equal drafts make equal payloads."""
        self.made += 1
        payload = str(draft["priority"]).encode()
        if draft["run_at"] is not None:
            draft = {**draft, "run_at": self.both.now + _number(draft["run_at"])}
        fields: Draft = {"id": f"j{self.made:04}", "payload": payload, "created_at": self.both.now, **draft}
        return JobRecord(**fields)  # type: ignore[arg-type]  # drawn by field name

    # Producers --------------------------------------------------------------------------------------------------

    @initialize(drawn=st.lists(drafts, min_size=2, max_size=6))
    def fill(self, drawn: list[Draft]) -> None:
        """Something to work on from the start."""
        self.both.enqueue([self.record(draft) for draft in drawn])

    @rule(drawn=st.lists(drafts, min_size=1, max_size=3), twice=st.booleans(), move=moves)
    def enqueue(self, drawn: list[Draft], twice: bool, move: Move) -> None:  # noqa: FBT001
        """New jobs; sometimes the batch carries its first record twice."""
        self.pass_time(move)
        records = [self.record(draft) for draft in drawn]
        self.both.enqueue([*records, records[0]] if twice else records)

    @rule(which=recent, draft=drafts, refused=st.booleans(), move=moves)
    def enqueue_again(self, which: int, draft: Draft, refused: bool, move: Move) -> None:  # noqa: FBT001
        """An id that was accepted before, as if its answer had been lost; or a batch with one bad record."""
        self.pass_time(move)
        again = self.record({**draft, "id": self.ids([which])[0]})
        if refused:
            self.both.refuse([self.record(draft), again, self.record({**draft, "max_attempts": 0})])
        else:
            self.both.enqueue([again])

    # Workers ----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.waiting())
    @rule(worker=st.sampled_from(WORKERS), move=moves)
    def reserve(self, worker: str, move: Move) -> None:
        """One job, for long enough to do something with it."""
        self.pass_time(move)
        self.both.reserve(QUEUES, limit=1, lease_for=HOUR, worker=worker, types=None)

    @rule(
        queues=st.sampled_from([QUEUES, QUEUES[:1], QUEUES[1:], [*QUEUES, QUEUES[0]]]),
        limit=st.sampled_from([5, 2, 1]),
        lease_for=st.sampled_from(LEASES),
        types=st.sampled_from([None, None, None, TYPES[:1], TYPES[1:], TYPES]),
        move=moves,
    )
    def reserve_batch(self, queues: list[str], limit: int, lease_for: int, types: list[str] | None, move: Move) -> None:
        """Several, of some queues and types."""
        self.pass_time(move)
        self.both.reserve(queues, limit=limit, lease_for=lease_for, worker=WORKERS[0], types=types)

    @precondition(lambda self: self.both.leases)
    @rule(which=some, lease_for=st.sampled_from(LEASES), note=st.none() | notes, move=moves)
    def extend(self, which: list[int], lease_for: int, note: Note | None, move: Move) -> None:
        """A heartbeat for any leases, valid or not."""
        self.pass_time(move)
        pairs = [self.lease(i) for i in which]
        kept = None if note is None else {pairs[0].store.job_id: note}
        self.both.extend(pairs, lease_for=lease_for, notes=kept)

    @precondition(lambda self: self.both.leases)
    @rule(verb=endings, which=recent, move=moves)
    def settle(self, verb: str, which: int, move: Move) -> None:
        """The plain ending of one lease."""
        self.pass_time(move)
        self.both.settle([(self.lease(which), _settlement({**PLAIN, "verb": verb}))])

    @precondition(lambda self: self.both.leases)
    @rule(drawn=st.lists(settlements, min_size=1, max_size=4), move=moves)
    def settle_batch(self, drawn: list[Draft], move: Move) -> None:
        """Any verbs for any leases, valid or not, some under the token of another job, some twice in one batch."""
        self.pass_time(move)
        calls: list[tuple[Pair, MakeSettlement]] = []
        for draft in drawn:
            pair = self.lease(_number(draft["lease"]))
            if draft["stolen"] is not None:
                token = self.lease(_number(draft["stolen"]))
                pair = Pair(_with_token(pair.model, token.model), _with_token(pair.store, token.store))
            calls += [(pair, _settlement(draft))] * _number(draft["times"])
        self.both.settle(calls)

    # Operators --------------------------------------------------------------------------------------------------

    @rule(queue=st.sampled_from(QUEUES), type_=st.sampled_from([None, None, *TYPES]), drawn=queue_settings)
    def configure(self, queue: str, type_: str | None, drawn: QueueSettings) -> None:
        """Pause, limits and rates, of a queue or of a type in it."""
        if drawn.paused_until is not None:
            drawn = replace(drawn, paused_until=self.both.now + drawn.paused_until)
        self.both.configure(queue, drawn, type=type_)

    @rule(tool=tools, which=some, queues=st.sampled_from([None, QUEUES[:1]]), move=moves)
    def operate(self, tool: str, which: list[int], queues: list[str] | None, move: Move) -> None:
        """Any jobs, some of them twice; the tool goes by their states. And the loops around the queue."""
        self.pass_time(move)
        match tool:
            case "cancel":
                self.both.cancel(self.ids(which))
            case "requeue":
                self.both.requeue(self.ids(which))
            case "purge":
                self.both.purge(self.ids(which))
            case "reap":
                self.both.reap(queues, worker=None, limit=1000)
            case "reap a few":
                self.both.reap(queues, worker=None, limit=len(which))
            case "reap a worker":
                self.both.reap(queues, worker=WORKERS[0], limit=1000)
            case _:
                days, ledger_for = (7, 30 * DAY) if queues is None else (1, HOUR)
                self.both.trim(ended_for=days * DAY, ledger_for=ledger_for)
                self.both.reread_ledger(which[0])

    # Registry ---------------------------------------------------------------------------------------------------

    def change(self, draft: Draft) -> MakeChange:
        """A change that expects one of the versions ever seen, none, or whatever is there."""
        version: Version = self.both.versions[-1 - _number(draft["version"]) % len(self.both.versions)]

        def make(side: int) -> Change:
            fields = {**draft, "kind": KIND, "version": version[side]}
            return Change(**fields)  # type: ignore[arg-type]  # drawn by field name

        return make

    @rule(drawn=st.lists(changes, min_size=1, max_size=3), move=moves)
    def write(self, drawn: list[Draft], move: Move) -> None:
        """Changes, some of the same row; then everything is read back."""
        self.pass_time(move)
        self.both.write([self.change(draft) for draft in drawn])
        self.both.read(KIND, ["a", "b", "a", "absent"])

    @precondition(lambda self: self.both.leases)
    @rule(which=recent, drawn=st.lists(changes, min_size=1, max_size=2, unique_by=_key), move=moves)
    def ack_with_writes(self, which: int, drawn: list[Draft], move: Move) -> None:
        """Changes that commit with an ack, or not at all."""
        self.pass_time(move)
        makes = [self.change(draft) for draft in drawn]

        def make(lease: Lease, side: int) -> Settlement:
            return Ack(lease, writes=tuple(change(side) for change in makes))

        self.both.settle([(self.lease(which), make)])
        self.both.read(KIND, ["a", "b"])

    @invariant()
    def nothing_differs(self) -> None:
        """See ``SideBySide.check``."""
        self.both.check()


def _settlement(draft: Draft) -> MakeSettlement:
    """The drawn fields that the drawn verb has."""
    common = {"detail": draft["detail"], "started_at": draft["started_at"]}
    delay = {"delay": draft["delay"]}
    later = delay if draft["run_at"] is None else {"run_at": draft["run_at"]}
    error = {"error": draft["error"]}

    def make(lease: Lease, side: int) -> Settlement:  # noqa: ARG001 - only versions differ by side
        match draft["verb"]:
            case "ack":
                return Ack(lease, result=b"7", **common)  # type: ignore[arg-type]  # drawn by field name
            case "retry":
                return Retry(lease, crashed=draft["crashed"], **later, **error, **common)  # type: ignore[arg-type]
            case "fail":
                return Fail(lease, reason="told to", **error, **common)  # type: ignore[arg-type]
            case _:
                return Release(lease, budget=draft["budget"], **delay, **common)  # type: ignore[arg-type]

    return make


def _with_token(lease: Lease, other: Lease) -> Lease:
    return Lease(job_id=lease.job_id, token=other.token, fence=other.fence, expires_at=lease.expires_at)


def lease_machine(open_store: Callable[[], Store]) -> type[RuleBasedStateMachine]:
    """The machine for one kind of store: ``open_store`` gives an empty space, opened with ``caller_clock=True``.

    The store needs every feature but offsets, halting and joined transactions. The machine closes nothing.
    """
    return type("LeaseMachine", (LeaseMachine,), {"open_store": staticmethod(open_store)})


def run_machine(
    open_store: Callable[[], Store],
    *,
    max_examples: int = 100,
    steps: int = 50,
    derandomize: bool = True,
    shrink: bool = True,
) -> None:
    """Play ``max_examples`` games; raises the first difference, with the steps that lead to it printed.

    A long run wants ``derandomize=False``, so that each one plays other games.
    """
    phases = [Phase.explicit, Phase.generate] + ([Phase.shrink] if shrink else [])
    run_state_machine_as_test(
        lease_machine(open_store),
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
