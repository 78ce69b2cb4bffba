"""The answers of a ``WorkLease``, and its arguments at and beyond their bounds, on every kind of storage."""

from __future__ import annotations

import dataclasses

import pytest

from holdfast.errors import HoldfastError
from holdfast.ordering import Acquired, AlreadyProcessed, WorkLease


@pytest.fixture
def lease(open_lease) -> WorkLease:
    return open_lease()


def test_results_cannot_be_changed(lease):
    answer = lease.try_acquire("A", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.token = "other"  # type: ignore[misc]
    match answer:
        case Acquired(token):
            assert token == answer.token
        case _:
            raise AssertionError(answer)


@pytest.mark.parametrize(
    ("domain", "offset"), [("", 1), ("a\n", 1), ("d" * 257, 1), ("A", -1), ("A", 2**63), ("A", True), ("A", "1")]
)
def test_wrong_arguments_are_refused(lease, domain, offset):
    with pytest.raises(HoldfastError, match="wanted"):
        lease.try_acquire(domain, offset)


def test_the_longest_domain_and_the_largest_offset_are_accepted(lease):
    for domain in ("ä" * 128, "x" * 256):
        for offset in (2**63 - 1, 0):
            lease.succeed(domain, lease.try_acquire(domain, offset).token)
        assert lease.try_acquire(domain, 2**63 - 1) == AlreadyProcessed()
