"""The OpenAPI document is exact: what it allows is answered as it says, and nothing makes the service fail."""

from __future__ import annotations

import pytest

from holdfast.service.routes import OPERATIONS
from holdfast.settings import Settings
from tests.service.http_service import running_service, sqlite_url
from tests.service.openapi_cases import run_openapi_cases, run_openapi_scenarios


@pytest.fixture(scope="module")
def sqlite_service(tmp_path_factory):
    """A service with all its parts."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(sqlite_url(folder), Settings(artifacts=str(folder / "artifacts"))) as running:
        yield running


def test_answers_are_those_of_the_document(sqlite_service):
    assert run_openapi_cases(sqlite_service.url, count=2) > 2 * len(OPERATIONS)


def test_answers_that_follow_the_links_are_those_of_the_document(sqlite_service):
    assert run_openapi_scenarios(sqlite_service.url, count=2) > 0


def test_the_document_has_the_bounds_of_the_settings(sqlite_service):
    schemas = sqlite_service.get("/openapi.json").json()["components"]["schemas"]
    [lease] = [one for one in schemas["ClaimRequest"]["properties"]["leaseSeconds"]["anyOf"] if one["type"] == "number"]
    assert (lease["minimum"], lease["maximum"]) == (1, 3600)
    assert schemas["NewTasks"]["properties"]["tasks"]["items"] == {"$ref": "#/components/schemas/NewTask"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_says_what_it_answers(sqlite_service, operation):
    document = sqlite_service.get("/openapi.json").json()
    described = document["paths"][operation.full_path][operation.method.lower()]
    assert described["operationId"] == operation.name
    assert {str(status) for status in operation.answers} <= set(described["responses"])
