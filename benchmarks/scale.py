"""How many jobs per second can a store and a number of slots process? docs/explanation/scale.md has the formulas.

A slot is in one of three states: it uses the store (reserve and settle), it works by itself (its Python processes and
the handler), or it waits for a free core of the store. So a cluster is a closed queueing network with two upper bounds:
the store's cores cannot be more than 100 % busy, and no slot can be faster than its own jobs.
``python -m benchmarks.scale`` prints the bound and the simulated throughput for clusters of several sizes.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

SESSIONS_PER_SLOT = 5  # at most: the worker's loop, the settler, the heartbeat, the progress reporter and LISTEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Processor seconds of one job. ``spark-costs`` measures them."""

    store: float  # of the server, without enqueue
    slot: float  # of the Python processes of a slot, without the handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The size of a cluster and the work of one job."""

    slots: int
    store_cores: int
    handler: float  # seconds of one job, on a core or asleep
    batch: int = 100  # jobs that a slot reserves at a time


def limit(cluster: Cluster, costs: Costs) -> float:
    """The upper bound in jobs per second: the lower of the store's bound and the slots' bound."""
    return min(cluster.store_cores / costs.store, cluster.slots / (costs.store + costs.slot + cluster.handler))


def slots_to_fill(cluster: Cluster, costs: Costs) -> float:
    """The number of slots that saturate the store; more slots do not increase the throughput."""
    return cluster.store_cores * (costs.store + costs.slot + cluster.handler) / costs.store


def connections(*, slots: int, each: int = SESSIONS_PER_SLOT) -> int:
    """The number of open sessions of the store."""
    return slots * each


def simulate(cluster: Cluster, costs: Costs, *, jobs: int, seed: int = 1) -> float:
    """Simulate one run batch by batch with gamma-distributed times; return jobs per second."""
    generator = random.Random(seed)
    free = [0.0] * cluster.store_cores  # the time at which each core of the store becomes free
    ready = [0.0] * cluster.slots  # the time at which each slot needs its next batch
    heapq.heapify(free)
    heapq.heapify(ready)
    left, last = jobs, 0.0
    while left > 0:
        taken = min(cluster.batch, left)
        left -= taken
        begins = max(heapq.heappop(ready), heapq.heappop(free))
        served = begins + generator.gammavariate(taken, costs.store)
        heapq.heappush(free, served)
        ended = served + generator.gammavariate(taken, costs.slot + cluster.handler)
        heapq.heappush(ready, ended)
        last = max(last, ended)
    return jobs / last


MEASURED = Costs(store=40e-6, slot=28e-6)  # PostgreSQL with no-op jobs; see docs/explanation/scale.md


def main() -> None:
    """Print a table of bounds and simulated throughputs."""
    print(f"{'handler':>10} {'slots':>6} {'limit':>12} {'simulated':>12} {'connections':>12}")
    for handler in (0.0, 0.001, 0.010, 0.100):
        for slots in (2, 16, 64, 256, 1024):
            cluster = Cluster(slots=slots, store_cores=8, handler=handler)
            jobs = max(20_000, 40 * slots * cluster.batch)
            values = limit(cluster, MEASURED), simulate(cluster, MEASURED, jobs=jobs)
            print(
                f"{handler * 1000:>7.0f} ms {slots:>6} "
                f"{values[0]:>10,.0f}/s {values[1]:>10,.0f}/s {connections(slots=slots):>12,}"
            )


if __name__ == "__main__":
    main()
