"""``holdfast space``."""

from __future__ import annotations

import pytest

from holdfast import Client, JobRequest
from holdfast.clock import MINUTE
from holdfast.driver import Change
from holdfast.drivers.requests import Write


@pytest.fixture
def tenants(store):
    for name in ("acme", "shop"):
        Client(store.space(name)).enqueue([JobRequest(type="t"), JobRequest(type="t")])
    return store


def test_all_spaces_are_listed(run, tenants):
    assert run("space", "list").out.split() == ["acme", "shop"]
    for number in range(150):  # more than one page of the store
        Client(tenants.space(f"tenant-{number:03}")).enqueue([JobRequest(type="t")])
    names = ["acme", "shop", *(f"tenant-{number:03}" for number in range(150))]
    assert run("space", "list", "--json").json == {"items": names}


def test_a_space_is_removed_after_a_question(run, tenants):
    assert "not confirmed" in run("space", "remove", "shop", stdin="n\n", code=1).err
    assert run("space", "remove", "shop", "--yes", "--json").json["rows"] >= 2
    assert run("space", "list").out.split() == ["acme"]
    assert tenants.space("shop").find().items == []


def test_a_space_with_a_job_in_flight_needs_force(run, tenants):
    assert len(tenants.space("shop").reserve(["default"], limit=1, lease_for=MINUTE)) == 1
    assert "wanted no job in flight, got 1" in run("space", "remove", "shop", "--yes", code=1).err
    assert len(tenants.space("shop").find().items) == 2
    assert "of the space shop" in run("space", "remove", "shop", "--yes", "--force").out
    assert run("space", "list").out.split() == ["acme"]


def test_all_spaces_are_repaired_by_hand(run, tenants):
    for name in ("acme", "shop"):
        assert len(tenants.space(name).reserve(["default"], limit=2, lease_for=1)) == 2
    assert run("reap", "--json").json == {"ended": 0}
    assert run("reap", "--all-spaces", "--json").json == {"ended": 4}
    for name in ("acme", "shop"):
        tenants.space(name).do(Write(changes=[Change(kind="kind", key="key", value=b"1", ttl=1)]))
    assert run("trim", "--json").json["registry"] == 0
    assert run("trim", "--all-spaces", "--json").json["registry"] == 2
