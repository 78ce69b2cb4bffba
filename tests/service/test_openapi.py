"""The OpenAPI document is exact: what it allows is answered as it says, and nothing makes the service fail."""

from __future__ import annotations

import pytest

from holdfast.drivers.requests import Cancel
from holdfast.service.routes import OPERATIONS
from holdfast.settings import Settings
from tests.service.http_service import running_service, sqlite_url
from tests.service.openapi_cases import OpenApiCases
from tests.service.openapi_journeys import run_journeys
from tests.webhook_receiver import receiving


@pytest.fixture(scope="module")
def receiver():
    with receiving() as running:
        yield running


@pytest.fixture(scope="module")
def sqlite_service(receiver, tmp_path_factory):
    """A service with all its parts."""
    folder = tmp_path_factory.mktemp("service")
    settings = Settings(artifacts=str(folder / "artifacts"), webhooks=receiver.settings)
    with running_service(sqlite_url(folder), settings) as running:
        yield running


@pytest.fixture(scope="module")
def cases(sqlite_service):
    return OpenApiCases(sqlite_service.url)


def test_answers_are_those_of_the_document(cases):
    before = cases.answers.total()
    cases.run_operations(2)
    assert cases.answers.total() - before > 2 * len(OPERATIONS)


def test_answers_that_follow_the_links_are_those_of_the_document(cases):
    before = cases.answers.total()
    cases.run_links(2)
    assert cases.answers.total() > before


def test_answers_to_those_who_lead_a_task_to_its_end_are_those_of_the_document(cases, receiver):
    run_journeys(cases, 1, receiver_url=receiver.url)
    assert cases.answers["submitResult", 200] > 0


def test_the_document_has_the_bounds_of_the_settings(sqlite_service):
    schemas = sqlite_service.get("/openapi.json").json()["components"]["schemas"]
    [lease] = [one for one in schemas["ClaimRequest"]["properties"]["leaseSeconds"]["anyOf"] if one["type"] == "number"]
    assert (lease["minimum"], lease["maximum"]) == (1, 3600)
    assert schemas["NewTasks"]["properties"]["tasks"]["items"] == {"$ref": "#/components/schemas/NewTask"}


def test_the_document_describes_each_event_of_a_stream(cases, sqlite_service):
    sqlite_service.store.do(Cancel(job_ids=[sqlite_service.enqueue("event")]))
    case = cases.operations["events"].Case(query={"after": "oldest"})
    assert "event: cancelled" in cases.send(case).text


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_says_what_it_answers(sqlite_service, operation):
    document = sqlite_service.get("/openapi.json").json()
    described = document["paths"][operation.full_path][operation.method.lower()]
    assert described["operationId"] == operation.name
    assert {str(status) for status in operation.answers} <= set(described["responses"])
    assert ("429" in described["responses"]) is (operation.scope is not None)
