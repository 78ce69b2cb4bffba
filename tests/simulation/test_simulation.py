"""Stories from seeds: good drivers break no law in any of them, and each broken one is found."""

from functools import partial

import pytest

from holdfast.connect import connect
from holdfast.testing.drivers.simulation import simulate
from holdfast.testing.drivers.simulation.__main__ import main
from tests.simulation.broken import BROKEN, TheTurnIsLost


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_no_law_is_broken_on_the_memory_driver(first):
    for seed in range(first, first + 100):
        assert simulate(seed).failure is None, f"python -m holdfast.testing.drivers.simulation --seed {seed} --trace"


def test_no_law_is_broken_on_the_sqlite_driver(tmp_path):
    store = connect(f"sqlite:///{tmp_path}/simulation.db", caller_clock=True)
    try:
        for seed in range(20):
            report = simulate(seed, open_store=partial(store.space, f"seed-{seed}"))
            assert report.failure is None, f"seed {seed}"
    finally:
        store.close()


def test_no_law_is_broken_on_the_postgres_driver(postgres_database):
    store = connect(postgres_database(), caller_clock=True)
    try:
        for seed in range(20):
            report = simulate(seed, open_store=partial(store.space, f"seed-{seed}"))
            assert report.failure is None, f"seed {seed}"
    finally:
        store.close()


def test_the_same_seed_tells_the_same_story():
    for seed in range(10):
        first, second = simulate(seed), simulate(seed)
        assert first.trace == second.trace
        assert first.digest == second.digest
    assert simulate(1).digest != simulate(2).digest


def test_a_story_has_everything_that_can_go_wrong():
    told = "\n".join("\n".join(simulate(seed).trace) for seed in range(50))
    endings = {"acked", "retried", "failed", "released", "expired", "cancelled", "requeued", "purged"}
    refusals = {"JobNotInflight", "LeaseMismatch", "LeaseExpired"}
    words = set(told.split())
    assert endings | refusals | {"extend", "pause", "trim", "reap", "ghost"} <= words


@pytest.mark.parametrize("driver", BROKEN, ids=lambda driver: driver.__name__)
def test_a_broken_driver_is_found_by_the_simulation(driver):
    assert any(simulate(seed, open_store=lambda: driver(caller_clock=True)).failure for seed in range(60))


def test_many_seeds_end_in_one_line(capsys):
    assert main(["--seeds", "3", "--steps", "40"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("3 seeds, 120 steps, ")


def test_a_failure_says_how_to_replay_it(capsys, monkeypatch):
    monkeypatch.setattr("holdfast.testing.drivers.simulation.__main__.memory", lambda: TheTurnIsLost(caller_clock=True))
    assert main(["--seeds", "100"]) == 1
    reason, replay = capsys.readouterr().out.splitlines()
    assert "was never finished" in reason
    seed = reason.split()[1].rstrip(":")
    assert replay == f"replay: python -m holdfast.testing.drivers.simulation --seed {seed} --trace"
    assert main(["--seed", seed, "--trace"]) == 1
    assert len(capsys.readouterr().out.splitlines()) > 50
