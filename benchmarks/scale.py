"""How many jobs a second a store and so many slots carry: the arithmetic of docs/scale.md, and a simulation beside it.

A slot is in one of three places: in the store (reserve and settle), at its own work (its Python processes and the
handler), or waiting for a free core of the store. So a cluster is a closed queue, and two limits hold whatever happens:
the store's cores are never more than busy, and no slot is quicker than its jobs. ``python -m benchmarks.scale`` prints
both beside the simulated number for clusters of several sizes.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

SESSIONS = 5  # of a slot at the most: its worker's loop, its settler, its heart, its teller, and one that listens


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of a processor that one job takes, by place. What they are is measured by ``spark-costs``."""

    store: float  # of the server: enqueue is not in it
    slot: float  # of the Python processes of a slot, the handler not included


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What there is, and what is to be done on it."""

    slots: int
    store_cores: int
    handler: float  # seconds that a job takes, of a core or of sleep
    batch: int = 100  # jobs that a slot takes at a time


def limit(cluster: Cluster, costs: Costs) -> float:
    """Jobs per second that cannot be exceeded: the lower of what the store and what the slots can do."""
    return min(cluster.store_cores / costs.store, cluster.slots / (costs.store + costs.slot + cluster.handler))


def slots_to_fill(cluster: Cluster, costs: Costs) -> float:
    """From how many slots on more of them add nothing: then the store is what is too small."""
    return cluster.store_cores * (costs.store + costs.slot + cluster.handler) / costs.store


def connections(*, slots: int, each: int = SESSIONS) -> int:
    """Open sessions of the store."""
    return slots * each


def simulate(cluster: Cluster, costs: Costs, *, jobs: int, seed: int = 1) -> float:
    """Jobs per second of one run, batch by batch, with times that vary as those of independent events do."""
    dice = random.Random(seed)
    free = [0.0] * cluster.store_cores  # when each core of the store is free again
    ready = [0.0] * cluster.slots  # when each slot comes back for its next batch
    heapq.heapify(free)
    heapq.heapify(ready)
    left, last = jobs, 0.0
    while left > 0:
        taken = min(cluster.batch, left)
        left -= taken
        begins = max(heapq.heappop(ready), heapq.heappop(free))
        served = begins + dice.gammavariate(taken, costs.store)
        heapq.heappush(free, served)
        ended = served + dice.gammavariate(taken, costs.slot + cluster.handler)
        heapq.heappush(ready, ended)
        last = max(last, ended)
    return jobs / last


MEASURED = Costs(store=40e-6, slot=28e-6)  # PostgreSQL, no-op jobs; docs/scale.md says where from


def main() -> None:
    """A table."""
    print(f"{'handler':>10} {'slots':>6} {'limit':>12} {'simulated':>12} {'connections':>12}")
    for handler in (0.0, 0.001, 0.010, 0.100):
        for slots in (2, 16, 64, 256, 1024):
            cluster = Cluster(slots=slots, store_cores=8, handler=handler)
            jobs = max(20_000, 40 * slots * cluster.batch)
            shown = limit(cluster, MEASURED), simulate(cluster, MEASURED, jobs=jobs)
            print(
                f"{handler * 1000:>7.0f} ms {slots:>6} "
                f"{shown[0]:>10,.0f}/s {shown[1]:>10,.0f}/s {connections(slots=slots):>12,}"
            )


if __name__ == "__main__":
    main()
