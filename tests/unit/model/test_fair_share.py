"""A fair share: one user gets half, and a new one always finds something."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.model.fair_share import may_take_another


def taken(users, size, rounds=1000):
    """Return what each user holds if they take one after another as much as they may."""
    held: Counter[int] = Counter()
    for user in range(users):
        for _ in range(rounds):
            if may_take_another(held[user], size - held.total()):
                held[user] += 1
    return list(held.values())


def test_one_user_holds_half_and_each_next_one_half_of_the_rest():
    assert taken(1, 32) == [16]
    assert taken(4, 32) == [16, 8, 4, 2]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 200])
def test_nothing_is_taken_that_is_not_free_and_a_single_user_gets_one(size):
    assert taken(1, size) == [max(1, size // 2)]
    assert sum(taken(500, size)) == size


def test_users_that_come_together_share_alike():
    held = Counter(dict.fromkeys(range(4), 0))
    for _ in range(100):
        for user in held:
            held[user] += may_take_another(held[user], 32 - held.total())
    assert max(held.values()) - min(held.values()) <= 1
