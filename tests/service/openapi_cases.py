"""Requests that schemathesis makes from the OpenAPI document of a service, and the checks of every answer."""

from __future__ import annotations

from typing import Any

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.drivers.remote.verbs import CONTENT_TYPE

schemathesis.serializer.alias(CONTENT_TYPE, "application/octet-stream")

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def run_openapi_cases(url: str, *, count: int, derandomize: bool = True) -> int:
    """Make ``count`` valid and as many invalid requests per operation; return how many were answered."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    answered = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @_settings(count, derandomize=derandomize)
            @hypothesis.given(operation.as_strategy(generation_mode=mode))
            def send(case: schemathesis.Case) -> None:
                nonlocal answered
                _do_not_wait(case)
                case.call_and_validate(checks=CHECKS)
                answered += 1

            try:
                send()
            except hypothesis.errors.Unsatisfiable:  # a call without parameters cannot be made wrong
                assert mode is schemathesis.GenerationMode.NEGATIVE
    return answered


def run_openapi_scenarios(url: str, *, count: int, derandomize: bool = True) -> int:
    """Follow the links of the document, ``count`` times: what one answer has is sent with the next request."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    answered = 0

    class Scenario(schema.as_state_machine()):  # type: ignore[misc] # a class that is made from the document
        def before_call(self, case: schemathesis.Case) -> None:
            _do_not_wait(case)

        def validate_response(self, response: Any, case: schemathesis.Case, **_: Any) -> None:
            nonlocal answered
            answered += 1
            case.validate_response(response, checks=CHECKS)

    Scenario.run(settings=_settings(count, derandomize=derandomize))
    return answered


def _settings(count: int, *, derandomize: bool) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=count,
        stateful_step_count=15,
        derandomize=derandomize,
        database=None,
        deadline=None,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


def _do_not_wait(case: schemathesis.Case) -> None:
    if isinstance(case.body, dict):
        case.body.pop("waitSeconds", None)
    if isinstance(case.query, dict):
        case.query.pop("wait", None)
    if case.path.endswith("/events"):
        case.query = {**(case.query or {}), "forSeconds": 0}
