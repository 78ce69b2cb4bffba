"""The operations of the API, by topic."""

from __future__ import annotations

from holdfast.service.driver import routes as driver
from holdfast.service.operation import Operation
from holdfast.service.routes import (
    artifacts,
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
    *artifacts.OPERATIONS,
    *subscriptions.OPERATIONS,
    *search.OPERATIONS,
    *queues.OPERATIONS,
    *domains.OPERATIONS,
    *driver.OPERATIONS,
    *events.OPERATIONS,
    *cleanup.OPERATIONS,
    *schedules.OPERATIONS,
    *health.OPERATIONS,
)
