"""``WorkerTiming``: how long a worker waits for its store, and how often it repairs the store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceTiming:
    """The time constants of maintenance. All are about: workers do not do it at the same time."""

    reap_seconds: float = 5.0  # queues that no worker reserves from are repaired too
    trim_seconds: float = 60.0
    domains_seconds: float = 30.0
    step_seconds: float = 1.0  # between two steps through the spaces


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTiming:
    """The time constants of one worker that are no options."""

    release_seconds: float = 1.0  # a reserved job that no child could start so long is released for other workers
    stop_seconds: float = 10.0  # the longest wait of a worker that ends for a store that does not answer
    silence_seconds: float = 10.0  # of the store, before it is reported, and between two reports
    contention_delay_seconds: float = 2.0  # on average, until a job tries again to get what another one holds
    contention_budget_seconds: float = 86_400.0  # of such delays (L8); then the job is a dead letter
    maintenance: MaintenanceTiming = MaintenanceTiming()
