"""The call of operators that removes what is older than its retention."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import SECOND
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.schemas.operators import Cleanup, CleanupRequest


async def cleanup(call: Call) -> Reply:
    """Remove old rows of the space. The service does the same from time to time."""
    request: CleanupRequest = call.body
    removed = await call.tenant.calls.run(
        call.tenant.store.trim,
        ended_for=_length(request.keep_ended_seconds),
        ledger_for=_length(request.keep_ledger_seconds),
        limit=request.limit,
    )
    return Reply(
        content=Cleanup(
            tasks=removed.jobs,
            ledger_rows=removed.ledger,
            idempotency_keys=removed.dedupe,
            registry_entries=removed.registry,
            more=removed.more,
        )
    )


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
