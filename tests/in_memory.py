"""A store in memory whose verbs a test overrides, or which lacks features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from holdfast.clock import Clock
from holdfast.drivers import requests as r
from holdfast.drivers.answers import Stored
from holdfast.drivers.capabilities import FIELDS, GROUPS, Capabilities, Feature
from holdfast.drivers.memory.engine import MemoryEngine, MemoryStore
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord
from holdfast.model.settlement import Ack, Release, Retry

A = TypeVar("A")

CORE_ALONE = (*GROUPS, *FIELDS)

METHODS = {
    Feature.JOBS: ("find", "read_columns", "any_open", "counts", "requeue", "cancel", "purge", "trim"),
    Feature.LEDGER: ("ledger", "ledger_tail", "ledger_end", "read_tuples", "ledger_marks"),
    Feature.REGISTRY: ("read", "scan", "write"),
    Feature.LIMITS: ("configure", "settings"),
    Feature.DOMAINS: ("domains", "resume", "forget_domain"),
    Feature.SPACES: ("spaces", "remove_space"),
}


def _on_jobs(loses: Callable[[JobRecord], bool]) -> Callable[[r.Request[object]], bool]:
    return lambda request: isinstance(request, r.Enqueue) and any(map(loses, request.jobs))


def _on_settlements(loses: Callable[[object], bool]) -> Callable[[r.Request[object]], bool]:
    return lambda request: isinstance(request, r.Settle) and any(map(loses, request.settlements))


def _any(*conditions: Callable[[r.Request[object]], bool]) -> Callable[[r.Request[object]], bool]:
    return lambda request: any(condition(request) for condition in conditions)


# Not made from the tables of the requests: what these tables forget must reach the engine, and fail.
LOSSES: Mapping[Feature, Callable[[r.Request[object]], bool]] = {
    Feature.PRIORITY: _on_jobs(lambda job: job.priority != 0),
    Feature.TYPES: lambda request: isinstance(request, r.Reserve) and request.types is not None,
    Feature.SCHEDULE: _any(
        _on_jobs(lambda job: job.run_at is not None or job.requested_run_at is not None),
        _on_settlements(lambda one: isinstance(one, Retry) and (one.delay > 0 or one.run_at is not None)),
        _on_settlements(lambda one: isinstance(one, Release) and one.delay > 0),
    ),
    Feature.KEY: _any(
        _on_jobs(lambda job: job.idempotency_key is not None or job.unique_for is not None),
        lambda request: isinstance(request, r.Enqueue) and request.replace_dead_before is not None,
    ),
    Feature.DOMAIN: _on_jobs(lambda job: job.domain is not None),
    Feature.OFFSET: _on_jobs(lambda job: job.offset is not None),
    Feature.LIMIT_KEY: _any(
        _on_jobs(lambda job: job.limit_key is not None),
        _on_settlements(lambda one: isinstance(one, Retry) and one.hold_key),
        lambda request: isinstance(request, r.Configure) and request.settings.has_key_limits,
    ),
    Feature.RESULT: _on_settlements(lambda one: isinstance(one, Ack) and one.result is not None),
    Feature.NOTES: _any(
        lambda request: isinstance(request, r.Extend) and len(request.notes) > 0,
        lambda request: isinstance(request, r.Reserve) and request.prefetch,
    ),
    Feature.WRITES: _any(
        _on_settlements(lambda one: isinstance(one, Ack) and len(one.writes) > 0),
        lambda request: isinstance(request, r.Enqueue) and len(request.writes) > 0,
    ),
}


class SmallEngine(MemoryEngine):
    """A memory engine that really lacks features: a request that needs one of them must not reach it."""

    def __init__(
        self,
        store: MemoryStore,
        lacks: Collection[Feature],
        *,
        space: str,
        caller_clock: bool,
        allows_processes: bool = False,
    ) -> None:
        super().__init__(store, space=space, caller_clock=caller_clock)
        self.lacks = lacks
        declared = MemoryEngine.can
        gaps = {**declared.gaps, **dict.fromkeys(lacks, "missing in this test")}
        if allows_processes:
            del gaps[Feature.PROCESSES]
        self.can = Capabilities(driver="small", durability=declared.durability, gaps=gaps)

    def execute(self, request: r.Request[A]) -> A:
        """Fail for a request that the engine cannot carry out."""
        for feature in self.lacks:
            assert request.verb not in METHODS.get(feature, ()), f"{request.verb} reached an engine without {feature}"
            assert not (feature in LOSSES and LOSSES[feature](request)), (
                f"{request} reached an engine without {feature}"
            )
        return super().execute(request)

    def enqueue(self, request: r.Enqueue) -> Stored:
        """Store jobs, and lease none if their leases could not count as prefetched."""
        return super().enqueue(replace(request, lease=None) if Feature.NOTES in self.lacks else request)

    def open_space(self, name: str) -> SmallEngine:
        """Return another space of the store."""
        assert name == self.space_name or Feature.SPACES not in self.lacks
        other = SmallEngine(self._store, self.lacks, space=name, caller_clock=self.caller_clock)
        other.can = self.can
        return other


class InMemory(Store):
    """A new, empty store in memory."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        declined: Collection[Feature] = (),
        space: str = "main",
        caller_clock: bool = False,
        allows_processes: bool = False,
    ) -> None:
        """With ``allows_processes`` a worker runs jobs in child processes, whose handlers must not use the store."""
        engine = SmallEngine(
            MemoryStore(clock), declined, space=space, caller_clock=caller_clock, allows_processes=allows_processes
        )
        super().__init__(engine)

    def space(self, name: str) -> Store:
        """Return another space of the store."""
        return Store(self.engine).space(name)
