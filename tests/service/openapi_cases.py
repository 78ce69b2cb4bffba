"""Requests that schemathesis makes from the OpenAPI document of a service, and the checks of every answer."""

from __future__ import annotations

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.http_service import RunningService

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def run_openapi_cases(service: RunningService, *, count: int, derandomize: bool = True) -> int:
    """Make ``count`` valid and as many invalid requests per operation; return how many were answered."""
    schema = schemathesis.openapi.from_dict(service.get("/openapi.json").json())
    answered = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            strategy = operation.as_strategy(generation_mode=mode)

            @hypothesis.settings(
                max_examples=count,
                derandomize=derandomize,
                database=None,
                deadline=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            @hypothesis.given(strategy)
            def send(case: schemathesis.Case) -> None:
                nonlocal answered
                if isinstance(case.body, dict):
                    case.body.pop("waitSeconds", None)
                if isinstance(case.query, dict):
                    case.query.pop("wait", None)
                case.call_and_validate(base_url=service.url, checks=CHECKS)
                answered += 1

            try:
                send()
            except hypothesis.errors.Unsatisfiable:  # a call without parameters cannot be made wrong
                assert mode is schemathesis.GenerationMode.NEGATIVE
    return answered
