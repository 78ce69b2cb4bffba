"""Requests that schemathesis makes from the OpenAPI document of a service, and the checks of every answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from holdfast.drivers.http.protocol import CONTENT_TYPE

schemathesis.serializer.alias(CONTENT_TYPE, "application/octet-stream")

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


class OpenApiCases:
    """Sends requests to one service, and counts the answers by operation and status."""

    def __init__(self, url: str, *, derandomize: bool = True) -> None:
        self.schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        self.operations = {name_of(one): one for one in (found.ok() for found in self.schema.get_all_operations())}
        self._derandomize = derandomize
        self.answers: Counter[tuple[str, int]] = Counter()

    def run_operations(self, count: int) -> None:
        """Make ``count`` valid and as many invalid requests per operation."""
        for operation in self.operations.values():
            for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

                @self.settings(count)
                @hypothesis.given(operation.as_strategy(generation_mode=mode))
                def send(case: schemathesis.Case) -> None:
                    self.send(case)

                try:
                    send()
                except hypothesis.errors.Unsatisfiable:  # a call without parameters cannot be made wrong
                    assert mode is schemathesis.GenerationMode.NEGATIVE

    def run_links(self, count: int) -> None:
        """Follow the links of the document, ``count`` times: what one answer has is sent with the next request."""
        cases = self

        class Scenario(self.schema.as_state_machine()):  # type: ignore[misc] # a class that is made from the document
            def before_call(self, case: schemathesis.Case) -> None:
                _do_not_wait(case)

            def validate_response(self, response: Any, case: schemathesis.Case, **_: Any) -> None:
                cases.answers[name_of(case.operation), response.status_code] += 1
                case.validate_response(response, checks=CHECKS)

        Scenario.run(settings=self.settings(count))

    def send(self, case: schemathesis.Case) -> Any:
        """Send a request, and check its answer."""
        _do_not_wait(case)
        answer = case.call_and_validate(checks=CHECKS)
        self.answers[name_of(case.operation), answer.status_code] += 1
        return answer

    def settings(self, count: int) -> hypothesis.settings:
        """Return the settings of a run with ``count`` examples."""
        return hypothesis.settings(
            max_examples=count,
            stateful_step_count=15,
            derandomize=self._derandomize,
            database=None,
            deadline=None,
            verbosity=hypothesis.Verbosity.quiet,
            suppress_health_check=list(hypothesis.HealthCheck),
        )


def name_of(operation: Any) -> str:
    """Return the name of an operation in the document."""
    return str(operation.definition.raw["operationId"])


def _do_not_wait(case: schemathesis.Case) -> None:
    if isinstance(case.body, dict):
        case.body.pop("waitSeconds", None)
    if isinstance(case.query, dict):
        case.query.pop("wait", None)
    if case.path.endswith("/events"):
        case.query = {**(case.query or {}), "forSeconds": 0}
