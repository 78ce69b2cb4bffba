"""``holdfast space``."""

from __future__ import annotations

import pytest

from holdfast import Client, JobRequest
from holdfast.clock import MINUTE


@pytest.fixture
def tenants(store):
    for name in ("acme", "shop"):
        Client(store.space(name)).enqueue([JobRequest(type="t"), JobRequest(type="t")])
    return store


def test_spaces_are_listed_page_by_page(run, tenants):
    assert run("space", "list").out.split() == ["acme", "shop"]
    page = run("space", "list", "--limit", "1", "--json").json
    assert page == {"items": ["acme"], "cursor": "acme"}
    assert run("space", "list", "--after", "acme", "--json").json == {"items": ["shop"], "cursor": None}


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
