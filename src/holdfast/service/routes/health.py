"""Calls of probes and scrapers, and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem
from holdfast.service.schemas.queues import Health


async def live(_call: Call) -> Reply:
    """Answer: the event loop runs."""
    return Reply(content=Health(ok=True, reasons=[]))


async def ready(call: Call) -> Reply:
    """Return whether the store answers, tokens can be checked, and the service stays: 200 or 503."""
    is_ready, reasons = await call.service.readiness()
    return Reply(status=200 if is_ready else 503, content=Health(ok=is_ready, reasons=reasons))


async def metrics(call: Call) -> Reply:
    """Return the metrics of this process and of the store."""
    found = call.service.metrics.exposition(call.accept)
    if found is None:
        raise Problem(Code.NOT_FOUND, "metrics need the package prometheus-client: pip install 'holdfast[metrics]'")
    content, content_type = found
    return Reply(content=content, content_type=content_type)


async def openapi(call: Call) -> Reply:
    """Return the OpenAPI document of this service."""
    return Reply(content=call.document)


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="live",
        method="GET",
        path="/healthz",
        summary="Whether the process runs",
        handler=live,
        answers={200: Health},
        versioned=False,
        settles=True,
    ),
    Operation(
        name="ready",
        method="GET",
        path="/readyz",
        summary="Whether the store answers, and tokens can be checked",
        handler=ready,
        answers={200: Health, 503: Health},
        versioned=False,
        settles=True,
    ),
    Operation(
        name="metrics",
        method="GET",
        path="/metrics",
        summary="Metrics for Prometheus",
        handler=metrics,
        scope=Scope.METRICS,
        answers={200: str},
        problems=(Code.NOT_FOUND,),
        versioned=False,
    ),
    Operation(
        name="openapi",
        method="GET",
        path="/openapi.json",
        summary="This document",
        handler=openapi,
        answers={200: dict},
        versioned=False,
    ),
)
