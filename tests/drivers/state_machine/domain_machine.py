"""The state machine of ordered domains: offsets, halts and gaps.

Few domains and few offsets, so that jobs arrive late, twice and behind gaps. All jobs have the same type.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from holdfast.clock import DAY, HOUR, MINUTE, SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.model.domain import ResumeAction
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings
from tests.drivers.state_machine.compared_machine import ComparedMachine, make_settlement
from tests.drivers.state_machine.strategies import (
    DEFAULT_SETTLEMENT,
    QUEUES,
    TYPES,
    WORKERS,
    ClockMove,
    Fields,
    clock_moves,
    recent_index,
    recent_indexes,
)

DOMAINS = ["d1", "d1", "d2"]
OFFSETS = [0, 0, 1, 1, 2, 2, 3, 4, 5]
QUEUE = st.sampled_from([QUEUES[0], QUEUES[0], QUEUES[1]])

domain_jobs = st.fixed_dictionaries(
    {
        "type": st.just(TYPES[0]),
        "queue": QUEUE,
        "priority": st.sampled_from([0, 0, 0, 5]),
        "domain": st.sampled_from([*DOMAINS, *DOMAINS, None]),
        "offset": st.sampled_from([*OFFSETS, None, None, None]),
        "idempotency_key": st.sampled_from([None, None, None, None, "k1"]),
        "limit_key": st.sampled_from([None, None, None, "h1"]),
        "run_at": st.sampled_from([None, None, None, None, SECOND]),  # relative to now
        "max_attempts": st.sampled_from([25, 25, 2, 1]),
    }
)
domain_settings = st.builds(
    QueueSettings,
    on_exhausted=st.sampled_from(OnExhausted),
    gaps=st.sampled_from([Gaps.WAIT, *Gaps]),
    gap_report_after=st.sampled_from([None, SECOND]),
    gap_pass_after=st.sampled_from([None, 1, SECOND, SECOND, HOUR]),
    max_inflight=st.sampled_from([None, None, None, 1]),
    key_max_inflight=st.sampled_from([None, None, 1]),
)
changed = st.sampled_from([None, ("gaps",), ("on_exhausted",), ("gaps", "gap_pass_after")])
verbs = st.sampled_from(["ack", "ack", "ack", "retry", "fail", "release"])
calls = st.sampled_from(["cancel", "requeue", "requeue", "purge", "reap", "trim"])


class DomainMachine(ComparedMachine):
    """Producers, workers and operators of domains."""

    def records(self, drawn: list[Fields]) -> list[Fields]:
        """Return the fields of records; only a job with a domain has an offset."""
        has_offsets = self.has(Feature.OFFSET)
        return [
            fields if has_offsets and fields["domain"] is not None else {**fields, "offset": None} for fields in drawn
        ]

    @initialize(drawn=st.lists(domain_jobs, min_size=4, max_size=10), of_queue=domain_settings)
    def start(self, drawn: list[Fields], of_queue: QueueSettings) -> None:
        """Start with a few jobs of a queue that may halt or wait."""
        self.configure(QUEUES[0], of_queue, None)
        self.compared.enqueue([self.record(fields) for fields in self.records(drawn)])

    @rule(drawn=st.lists(domain_jobs, min_size=1, max_size=5), move=clock_moves)
    def enqueue(self, drawn: list[Fields], move: ClockMove) -> None:
        """Enqueue new records, many of them with a known offset."""
        self.move_clock(move)
        self.compared.enqueue([self.record(fields) for fields in self.records(drawn)])

    @rule(limit=st.sampled_from([1, 5]), queues=st.sampled_from([QUEUES, QUEUES[:1]]), move=clock_moves)
    def reserve(self, limit: int, queues: list[str], move: ClockMove) -> None:
        """Reserve jobs of some queues."""
        self.move_clock(move)
        self.compared.reserve(queues, limit=limit, lease_for=MINUTE, worker=WORKERS[0], types=None)

    @precondition(lambda self: self.compared.leases)
    @rule(verb=verbs, index=recent_index, move=clock_moves)
    def settle(self, verb: str, index: int, move: ClockMove) -> None:
        """Settle one lease, valid or not."""
        self.move_clock(move)
        self.compared.settle([(self.lease(index), make_settlement({**DEFAULT_SETTLEMENT, "verb": verb}))])

    @rule(call=calls, indexes=recent_indexes, move=clock_moves)
    def operate(self, call: str, indexes: list[int], move: ClockMove) -> None:
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
                self.compared.reap(None, worker=None, limit=1000)
            case _:
                self.compared.trim(ended_for=DAY, ledger_for=30 * DAY)

    @rule(queue=QUEUE, drawn=domain_settings, only=changed)
    def configure(self, queue: str, drawn: QueueSettings, only: tuple[str, ...] | None = None) -> None:
        """Let a queue halt its domains, wait for gaps, or limit its jobs."""
        if not self.has(Feature.LIMIT_KEY):
            drawn = replace(drawn, key_max_inflight=None)
        if not self.has(Feature.DOMAINS):
            drawn = replace(drawn, on_exhausted=OnExhausted.SKIP)
        if not self.has(Feature.OFFSET):
            drawn = replace(drawn, gaps=Gaps.PASS, gap_report_after=None, gap_pass_after=None)
        self.compared.configure(queue, drawn, type=None, only=only)

    @precondition(lambda self: self.has(Feature.DOMAINS))
    @rule(
        queue=QUEUE,
        domain=st.sampled_from(DOMAINS),
        action=st.sampled_from(ResumeAction),
        position=st.sampled_from([None, None, *OFFSETS]),
        move=clock_moves,
    )
    def resume(self, queue: str, domain: str, action: ResumeAction, position: int | None, move: ClockMove) -> None:
        """Resume any domain, halted or not, and sometimes move the offset that it waits for."""
        self.move_clock(move)
        self.compared.resume(queue, domain, action, position if self.has(Feature.OFFSET) else None)

    @precondition(lambda self: self.has(Feature.OFFSET))
    @rule(queue=QUEUE, domain=st.sampled_from(DOMAINS))
    def forget_domain(self, queue: str, domain: str) -> None:
        """Forget any domain, with open jobs or without."""
        self.compared.forget_domain(queue, domain)

    @invariant()
    def store_and_oracle_are_equal(self) -> None:
        """See ``ComparedStore.check``; the domains are compared too."""
        self.compared.check()
        if self.has(Feature.OFFSET):
            self.compared.check_domains()
