"""The call of operators that removes what is older than its retention."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Trim
from holdfast.drivers.store import Store
from holdfast.model import retention
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.schemas.operators import Cleanup, CleanupRequest
from holdfast.worker.dead_retention import DeadLetterRetention

MAX_STEPS = 10  # of one call, in search of failed tasks that are old enough


async def cleanup(call: Call) -> Reply:
    """Remove old rows of the space. The service does the same from time to time."""
    return Reply(content=await call.tenant.calls.run(_remove, call.tenant.store, call.body))


def _remove(store: Store, request: CleanupRequest) -> Cleanup:
    removed = store.do(
        Trim(
            ended_for=_length(request.keep_ended_seconds),
            ledger_for=_length(request.keep_ledger_seconds),
            limit=request.limit,
        )
    )
    failed, more_failed = _remove_failed(store, request)
    return Cleanup(
        tasks=removed.jobs,
        failed_tasks=failed,
        ledger_rows=removed.ledger,
        idempotency_keys=removed.dedupe,
        registry_entries=removed.registry,
        more=removed.more or more_failed,
    )


def _remove_failed(store: Store, request: CleanupRequest) -> tuple[int, bool]:
    """Purge failed tasks that are old enough; return how many, and whether there may be more."""
    dead_for = _length(request.keep_failed_seconds)
    if not store.capabilities.has(Feature.REGISTRY):
        return 0, False
    if dead_for is None:
        [entry] = store.do(Read(kind=retention.KIND, keys=[retention.KEY]))
        kept = retention.read_retention(entry)
        dead_for = None if kept is None else kept.dead_for
    if dead_for is None:
        return 0, False
    dead_letters = DeadLetterRetention(store)
    for _ in range(MAX_STEPS):
        removed, has_more = dead_letters.step(dead_for, limit=request.limit)
        if removed or not has_more:
            return removed, has_more
    return 0, False


def _length(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * SECOND)


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="cleanup",
        method="POST",
        path="/cleanup",
        summary="Remove what is older than its retention",
        handler=cleanup,
        scope=Scope.ADMIN,
        body=CleanupRequest,
        answers={200: Cleanup},
        audited=True,
    ),
)
