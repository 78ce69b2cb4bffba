"""The operations of the API, by topic."""

from __future__ import annotations

from holdfast.service.operation import Operation
from holdfast.service.routes import artifacts, claims, domains, health, payloads, queues, search, settlements, tasks

OPERATIONS: tuple[Operation, ...] = (
    *tasks.OPERATIONS,
    *claims.OPERATIONS,
    *settlements.OPERATIONS,
    *artifacts.OPERATIONS,
    *payloads.OPERATIONS,
    *search.OPERATIONS,
    *queues.OPERATIONS,
    *domains.OPERATIONS,
    *health.OPERATIONS,
)
