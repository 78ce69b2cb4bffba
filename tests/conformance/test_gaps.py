"""Engines that lack features: each refuses what needs them, skips the cases of these features, and passes all others.

A case that needs a feature and does not say so fails here: a small engine fails when such a request reaches it.
"""

from typing import TypeVar

import pytest

from holdfast.drivers import requests as r
from holdfast.drivers.capabilities import FIELDS, GROUPS, Feature
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.testing.drivers.conformance import CaseStatus, cases, refusals, run_cases
from holdfast.testing.drivers.harness import Harness
from tests.in_memory import CORE_ALONE, InMemory

A = TypeVar("A")

ENGINES = {**{feature.name.lower(): (feature,) for feature in CORE_ALONE}, "core alone": CORE_ALONE}
REQUESTS = {request for request in vars(r).values() if isinstance(request, type) and issubclass(request, r.Request)}


class SmallHarness(Harness):
    """Opens a store in memory without these features."""

    def __init__(self, lacks, store_type=InMemory):
        super().__init__()
        self.lacks, self.store_type = lacks, store_type

    def open(self, *, space, caller_clock):
        return self.store_type(declined=self.lacks, space=space, caller_clock=caller_clock)


@pytest.mark.parametrize("lacks", ENGINES.values(), ids=ENGINES)
def test_an_engine_without_a_feature_passes_all_cases_that_do_not_need_it(lacks):
    results = list(run_cases(SmallHarness(lacks), cases()))
    assert [(result.case.name, result.reason) for result in results if result.status is CaseStatus.FAILED] == []
    refused = [result.case for result in results if result.case in refusals.CASES and not result.reason]
    assert len(refused) == len(lacks), "each missing feature has a case that refuses it"
    passed = sum(result.status is CaseStatus.PASSED for result in results)
    assert passed > (200 if lacks is CORE_ALONE else 600)


class Careless(InMemory):
    """Declares what its engine lacks, and accepts it all the same."""

    def do(self, request: r.Request[A]) -> A:
        try:
            return super().do(request)
        except Unsupported:
            return None

    def space(self, name: str) -> Store:
        del name
        return self


@pytest.mark.parametrize("feature", CORE_ALONE)
def test_a_store_that_accepts_what_its_engine_lacks_is_caught(feature):
    [case] = [one for one in refusals.CASES if f"needs {feature} is" in one.name]
    with pytest.raises(AssertionError, match="nothing was raised"):
        case.run(SmallHarness((feature,), Careless))


def test_every_request_is_of_the_core_or_of_one_group():
    core = {r.Enqueue, r.Reserve, r.Extend, r.Settle, r.Reap, r.Inspect, r.Wait, r.WaitForCancel, r.Diagnose, r.Request}
    assert {request for request in REQUESTS if not request.needs} == core
    assert {feature for request in REQUESTS for feature in request.needs} == set(GROUPS)
    assert all(len(request.needs) <= 1 for request in REQUESTS)


def test_every_request_of_a_group_and_every_field_has_a_refusal():
    assert {type(request) for request in refusals.GROUP_REQUESTS} == {one for one in REQUESTS if one.needs}
    assert {type_: set(values) for type_, values in refusals.VALUES.items()} == {
        type_: set(needs) for type_, needs in r.FIELD_NEEDS.items()
    }
    assert {request for request in REQUESTS if request.field_needs} <= set(r.FIELD_NEEDS)
    needed = {feature for needs in r.FIELD_NEEDS.values() for features in needs.values() for feature in features}
    assert needed >= set(FIELDS)


def test_a_batch_with_a_value_in_one_of_its_columns_is_refused():
    store = InMemory(declined=[Feature.KEY])
    harness = SmallHarness([Feature.KEY])
    batch = harness.job_batch([b"1"] * 1000, keys=[*[None] * 999, "key"])
    with pytest.raises(Unsupported, match="idempotency keys: missing in this test"):
        store.enqueue(batch)
    assert store.find().items == []
