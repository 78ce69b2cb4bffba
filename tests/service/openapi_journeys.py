"""Journeys: tasks and subscriptions from their creation to their end, by requests that the OpenAPI document allows.

Requests with random ids and tokens do not reach a task. Here each one carries what earlier answers have told, and
whatever else schemathesis makes up; some carry a wrong token.
"""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import hypothesis.strategies as st
import schemathesis

from tests.service.openapi_cases import OpenApiCases

WORK = ("heartbeatTask", "uploadArtifact", "cancelTask")
ENDS = ("submitResult", "submitResults", "nackTask", "abandonTask")
READS = ("showTask", "showResult", "listArtifacts", "downloadArtifact", "requeueTasks")
OF_SUBSCRIPTION = ("heartbeatSubscription", "listSubscriptions", "deleteSubscription")
PATHS = (  # of tasks; before and after each one come any other calls
    ("submitResult", "showResult"),
    ("submitResults", "showTask"),
    ("heartbeatTask", "nackTask"),
    ("cancelTask", "abandonTask", "requeueTasks"),
    ("uploadArtifact", "submitResult", "listArtifacts", "downloadArtifact"),
)
SUCCESSES = {  # that a run of many journeys must have seen
    "enqueueTask": 202,
    "claimTasks": 200,
    "heartbeatTask": 200,
    "uploadArtifact": 201,
    "submitResult": 200,
    "submitResults": 200,
    "nackTask": 200,
    "abandonTask": 200,
    "showTask": 200,
    "showResult": 200,
    "cancelTask": 200,
    "listArtifacts": 200,
    "downloadArtifact": 200,
    "requeueTasks": 200,
    "subscribe": 201,
    "heartbeatSubscription": 200,
    "deleteSubscription": 204,
}
ARTIFACTS = ("report.csv", "log")
MAX_STEPS = 4  # before and after a path
LEASE_SECONDS = 600  # a shorter one may end in the middle of a journey


def run_journeys(cases: OpenApiCases, count: int, *, receiver_url: str) -> None:
    """Lead ``count`` tasks along each path, and as many subscriptions. Webhooks may go to ``receiver_url``."""

    def run(lead: Callable[[_Journey], None]) -> None:
        @cases.settings(count)
        @hypothesis.given(st.data())
        def lead_one(data: st.DataObject) -> None:
            lead(_Journey(cases, data, receiver_url))

        lead_one()

    run(_Journey.lead_subscription)
    for path in PATHS:
        run(operator.methodcaller("lead_task", path))


class _Journey:
    def __init__(self, cases: OpenApiCases, data: st.DataObject, receiver_url: str) -> None:
        self._cases = cases
        self._data = data
        self._receiver_url = receiver_url
        self._uploaded: list[str] = []

    def lead_task(self, path: Sequence[str]) -> None:
        command = f"journey.{uuid.uuid4().hex}"
        created = self._create(command)
        if created.status_code != 202:  # 1.0 is a whole number for JSON Schema, and none for the service
            return
        claim = self._case("claimTasks")
        claim.body = {**claim.body, "commands": [command], "queues": None, "leaseSeconds": LEASE_SECONDS}
        claimed = self._cases.send(claim)
        if claimed.status_code != 200:
            return
        [found] = claimed.json().get("claims", [claimed.json()])
        assert found["task"]["id"] == created.json()["taskId"]
        for name in (*self._some_of(WORK), *path, *self._some_of((*READS, *WORK, *ENDS))):
            answer = self._cases.send(self._step(name, found["task"]["id"], found["leaseToken"]))
            if name == "uploadArtifact" and answer.status_code == 201:
                self._uploaded.append(answer.json()["name"])

    def _create(self, command: str) -> Any:
        """Create a task that can be claimed now."""
        case = self._case("enqueueTask")
        fields: dict[str, Any] = case.body
        for name in ("queue", "domain", "offset", "runAt", "delaySeconds", "idempotencyKey", "webhook"):
            fields.pop(name, None)
        fields["command"] = command
        if self._data.draw(st.booleans()):
            fields["webhook"] = f"{self._receiver_url}/"
        return self._cases.send(case)

    def _step(self, name: str, task_id: str, token: str) -> schemathesis.Case:
        """Return a request for the task; most of them carry the token of its lease and names that exist."""
        case = self._case(name)
        path, body = case.path_parameters or {}, case.body if isinstance(case.body, dict) else {}
        if "task_id" in path:
            path["task_id"] = task_id
        if "taskIds" in body:
            body["taskIds"] = [task_id]
        if "leaseSeconds" in body:
            body["leaseSeconds"] = LEASE_SECONDS
        if not self._is_likely():
            return case
        if name in ("uploadArtifact", "downloadArtifact"):
            for header in ("content-digest", "range", "lease-token"):
                case.headers.pop(header, None)
        if name == "uploadArtifact":
            case.headers["lease-token"] = token
        if "artifact" in path:
            names = self._uploaded if name == "downloadArtifact" and self._uploaded else ARTIFACTS
            path["artifact"] = self._data.draw(st.sampled_from(names))
        for message in body.get("results", [body]):
            if "leaseToken" in message:
                message["leaseToken"] = token
            if "taskId" in message:
                message["taskId"] = task_id
            if "status" in message:
                message["artifacts"] = sorted(set(self._uploaded))
        return case

    def lead_subscription(self) -> None:
        case = self._case("subscribe")
        case.body["callbackUrl"] = f"{self._receiver_url}/"
        created = self._cases.send(case)
        for name in (*self._some_of(OF_SUBSCRIPTION), *OF_SUBSCRIPTION):
            step = self._case(name)
            if created.status_code == 201 and step.path_parameters:
                step.path_parameters["subscription_id"] = created.json()["subscriptionId"]
            self._cases.send(step)

    def _case(self, name: str) -> schemathesis.Case:
        """Return a valid request of an operation."""
        positive = schemathesis.GenerationMode.POSITIVE
        return self._data.draw(self._cases.operations[name].as_strategy(generation_mode=positive))

    def _some_of(self, names: Sequence[str]) -> list[str]:
        return self._data.draw(st.lists(st.sampled_from(names), max_size=MAX_STEPS))

    def _is_likely(self) -> bool:
        return self._data.draw(st.integers(0, 9)) < 9  # also in the simplest example
