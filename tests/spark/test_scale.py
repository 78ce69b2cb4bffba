"""The arithmetic of docs/explanation/scale.md, compared with a simulation and with real workers."""

import resource

import pytest

import holdfast
from benchmarks.jobs import fill
from benchmarks.processes import run_timed
from benchmarks.scale import MEASURED, Cluster, Costs, connections, limit, simulate, slots_to_fill


@pytest.mark.parametrize("handler", [0.0, 0.001, 0.01, 0.1])
@pytest.mark.parametrize("slots", [1, 4, 32, 256])
@pytest.mark.parametrize("cores", [1, 8])
def test_a_simulated_cluster_reaches_its_limit_and_does_not_exceed_it(slots, cores, handler):
    cluster = Cluster(slots=slots, store_cores=cores, handler=handler)
    throughput = simulate(cluster, MEASURED, jobs=100 * slots * cluster.batch)
    # Near saturation slots wait for each other, which the limit ignores: at most a fifth.
    assert 0.8 < throughput / limit(cluster, MEASURED) < 1.03


def test_more_slots_than_saturate_the_store_add_nothing():
    cluster = Cluster(slots=64, store_cores=4, handler=0.002)
    full = slots_to_fill(cluster, MEASURED)
    fewer, enough, more = (
        limit(Cluster(slots=round(full * share), store_cores=4, handler=0.002), MEASURED) for share in (0.5, 1.1, 3)
    )
    assert fewer < 0.6 * enough
    assert enough == more == 4 / MEASURED.store


def test_a_second_store_doubles_the_throughput():
    cluster = Cluster(slots=2000, store_cores=8, handler=0.0)
    halves = [Cluster(slots=1000, store_cores=8, handler=0.0)] * 2
    assert sum(limit(half, MEASURED) for half in halves) == 2 * limit(cluster, MEASURED)


def test_the_number_of_connections_grows_with_the_slots():
    assert connections(slots=16, each=5) == 80


def test_the_cost_of_a_job_predicts_the_cost_of_many(tmp_path):
    """In processor time, which other load on the machine changes little; compared as a ratio."""
    url = f"sqlite:///{tmp_path}/jobs.db"

    def spent(jobs):
        with holdfast.connect(url) as store:
            fill(store, jobs)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run_timed("worker_pair", "pair", url, "noop")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    nothing, few, many = spent(1), spent(4_000), spent(12_000)
    costs = Costs(store=1e-9, slot=(few - nothing) / 4_000)
    predicted = nothing + 12_000 * costs.slot
    assert 0.5 < many / predicted < 2.0
