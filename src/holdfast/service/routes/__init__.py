"""The operations of the API, by topic."""

from __future__ import annotations

from holdfast.service.operation import Operation
from holdfast.service.routes import (
    claims,
    cleanup,
    domains,
    events,
    health,
    queues,
    schedules,
    search,
    settlements,
    subscriptions,
    tasks,
)

OPERATIONS: tuple[Operation, ...] = (
    *tasks.OPERATIONS,
    *claims.OPERATIONS,
    *settlements.OPERATIONS,
    *subscriptions.OPERATIONS,
    *search.OPERATIONS,
    *queues.OPERATIONS,
    *domains.OPERATIONS,
    *events.OPERATIONS,
    *cleanup.OPERATIONS,
    *schedules.OPERATIONS,
    *health.OPERATIONS,
)
