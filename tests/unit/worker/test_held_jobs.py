"""What a worker may reserve beside the jobs that it holds."""

import pytest
from msgspec.structs import replace

from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord
from holdfast.worker import held_jobs
from holdfast.worker.held_jobs import HeldJobs
from tests.in_memory import InMemory

LEASE = 60_000_000


@pytest.fixture(autouse=True)
def budget(monkeypatch):
    monkeypatch.setattr(held_jobs, "MAX_HELD_BYTES", 1000)


@pytest.fixture
def held():
    return HeldJobs(lease_seconds=30.0)


def reserve(*sizes, domain=None):
    """Return reservations of jobs with payloads of these sizes."""
    with InMemory() as store:
        store.enqueue(
            [
                JobRecord(
                    id=f"{n}",
                    type="t",
                    queue="q",
                    payload=b"1" * size,
                    created_at=1,
                    domain=domain,
                )
                for n, size in enumerate(sizes)
            ]
        )
        return store.reserve(["q"], limit=len(sizes), lease_for=LEASE)


def demand(held, *, limit=6, free_places=6):
    return held.demand(limit, free_places, short_jobs=False)


def test_a_reserve_asks_for_the_bytes_that_are_left(held):
    reserved = reserve(400, 400)
    assert demand(held).max_bytes == 1000
    held.add(reserved, Isolation.ALONE)
    assert demand(held).max_bytes == 200
    held.remove(reserved[:1])
    assert demand(held).max_bytes == 600


def test_a_worker_that_holds_its_budget_takes_one_job_for_a_free_place(held):
    reserved = reserve(400, 600)
    held.add(reserved, Isolation.ALONE)
    assert (held.limit(6, 4), held.limit(6, 0)) == (1, 0)
    assert demand(held).max_bytes == 1
    held.remove(reserved)
    assert held.limit(6, 4) == 6


def test_nothing_is_reserved_beside_an_isolated_job(held):
    reserved = [replace(one, isolated=True) for one in reserve(1)]
    held.add(reserved, Isolation.ALONE)
    assert held.limit(6, 6) == 0
    held.remove(reserved)
    assert held.limit(6, 6) == 6
    held.add(reserve(1), Isolation.ALONE)
    assert held.limit(6, 6) == 6  # the job that is held now is not isolated


def test_an_isolated_job_is_reserved_only_by_a_worker_that_holds_no_other(held):
    reserved = reserve(1)
    assert demand(held).isolation is Isolation.ALONE
    held.add(reserved, Isolation.ALONE)
    assert demand(held).isolation is Isolation.STOP
    held.remove(reserved)
    assert demand(held).isolation is Isolation.ALONE


def test_jobs_that_cannot_begin_at_once_are_prefetched(held):
    assert not demand(held, limit=6, free_places=6).prefetch
    assert demand(held, limit=7, free_places=6).prefetch


def test_a_held_job_of_a_domain_blocks_it_until_no_job_is_held(held):
    in_domain, without = reserve(1, domain="d"), reserve(1)
    held.add(without, Isolation.ALONE)
    assert not held.may_block_domains
    held.add(in_domain, Isolation.STOP)
    assert held.may_block_domains
    held.remove([*without, *in_domain])
    assert not held.may_block_domains
    held.add(without, Isolation.ALONE)
    assert not held.may_block_domains
