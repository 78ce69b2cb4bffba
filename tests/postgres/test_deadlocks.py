"""The verbs take their locks in one order: no two of them wait for each other in a circle."""

import pytest

from tests.postgres.stress import count_deadlocks_of_random_verbs


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_verbs_in_shared_domains_never_deadlock_and_lose_no_turn(url, seed):
    assert count_deadlocks_of_random_verbs(url, threads=8, steps=150, seed=seed) == 0
