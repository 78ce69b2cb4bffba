"""Simulations from seeds: good drivers break no law, and each faulty driver is caught."""

from functools import partial

import pytest

from holdfast.connect import connect
from tests.drivers.faulty.domains import TurnNeverPassed
from tests.drivers.faulty.faulty_driver import open_faulty
from tests.drivers.simulation import simulate
from tests.drivers.simulation.__main__ import main
from tests.simulation.faulty_drivers import CAUGHT_BY_THE_SIMULATION


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.long) for first in range(100, 400, 100))])
def test_the_memory_driver_breaks_no_law(first):
    for seed in range(first, first + 100):
        assert simulate(seed).failure is None, f"python -m tests.drivers.simulation --seed {seed} --trace"


SEEDS = pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 25), marks=pytest.mark.long)])


@SEEDS
def test_the_sqlite_driver_breaks_no_law(tmp_path, seeds):
    store = connect(f"sqlite:///{tmp_path}/simulation.db", caller_clock=True)
    try:
        for seed in seeds:
            report = simulate(seed, open_store=partial(store.space, f"seed-{seed}"))
            assert report.failure is None, f"seed {seed}"
    finally:
        store.close()


@SEEDS
def test_the_postgres_driver_breaks_no_law(postgres_database, seeds):
    store = connect(postgres_database(), caller_clock=True)
    try:
        for seed in seeds:
            report = simulate(seed, open_store=partial(store.space, f"seed-{seed}"))
            assert report.failure is None, f"seed {seed}"
    finally:
        store.close()


def test_the_same_seed_gives_the_same_trace():
    for seed in range(10):
        first, second = simulate(seed), simulate(seed)
        assert first.trace == second.trace
        assert first.digest == second.digest
    assert simulate(1).digest != simulate(2).digest


def test_the_traces_contain_every_kind_of_event():
    words = {word for seed in range(50) for line in simulate(seed).trace for word in line.split()}
    endings = {"acked", "retried", "failed", "released", "expired", "cancelled", "requeued", "purged"}
    refusals = {"JobNotInflight", "LeaseMismatch", "LeaseExpired"}
    isolation = {"share", "alone", "stop", "skip", "prefetch", "started", "outage"}
    domains = {"resume", "halt", "wait"}
    assert endings | refusals | isolation | domains | {"extend", "pause", "trim", "reap", "stale"} <= words


@pytest.mark.parametrize("driver", CAUGHT_BY_THE_SIMULATION, ids=lambda driver: driver.__name__)
def test_a_faulty_driver_is_caught_by_the_simulation(driver):
    assert any(simulate(seed, open_store=lambda: open_faulty(driver)).failure for seed in range(300))


def test_many_seeds_print_one_line(capsys):
    assert main(["--seeds", "3", "--steps", "40"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("3 seeds, 120 steps, ")


def test_a_failure_prints_how_to_replay_it(capsys, monkeypatch):
    opener = "tests.drivers.simulation.__main__.open_memory_store"
    monkeypatch.setattr(opener, lambda: open_faulty(TurnNeverPassed))
    assert main(["--seeds", "100"]) == 1
    reason, replay = capsys.readouterr().out.splitlines()
    assert "was never finished" in reason
    seed = reason.split()[1].rstrip(":")
    assert replay == f"replay: python -m tests.drivers.simulation --seed {seed} --trace"
    assert main(["--seed", seed, "--trace"]) == 1
    assert len(capsys.readouterr().out.splitlines()) > 50
