"""Calls of operators about tasks: search, requeue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holdfast.clock import from_datetime
from holdfast.model import bounds
from holdfast.model.filters import JobFilter
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.schemas.queues import Requeued, RequeueRequest, SearchQuery, TaskPage
from holdfast.service.statuses import STATE_OF, status_of
from holdfast.service.task_answers import task_of
from holdfast.service.tenants.tenant import Tenant


async def search(call: Call) -> Reply:
    """Return a page of tasks, ordered by id: those of one process in the order of their creation."""
    query: SearchQuery = call.query
    where = JobFilter(
        states=None if query.status is None else (STATE_OF[query.status],),
        queue=query.queue,
        type=query.command,
        domain=query.domain,
        idempotency_key=query.idempotency_key,
        reason=query.reason,
        created_from=_instant("createdFrom", query.created_from),
        created_before=_instant("createdBefore", query.created_before),
    )
    return Reply(content=await call.tenant.calls.run(_read_page, call.tenant, where, query))


def _read_page(tenant: Tenant, where: JobFilter, query: SearchQuery) -> TaskPage:
    """Read and convert a page, in a thread: its payloads may have several megabytes (``FIND_BYTES``)."""
    page = tenant.store.find(where, limit=query.limit, after=query.after)
    now = tenant.clock.now()
    jobs = [job for job in page if query.status in (None, status_of(job, now))]
    return TaskPage(tasks=[task_of(job, now) for job in jobs], cursor=page.cursor)


def _instant(field: str, value: datetime | None) -> int | None:
    return None if value is None else bounds.check_integer(field, from_datetime(value), most=bounds.MAX_INSTANT)


async def requeue(call: Call) -> Reply:
    """Run failed or cancelled tasks again, with all their attempts."""
    request: RequeueRequest = call.body
    return Reply(content=Requeued(requeued=await call.tenant.requeue(request.task_ids)))


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="searchTasks",
        method="GET",
        path="/tasks",
        summary="Search tasks",
        handler=search,
        scope=Scope.ADMIN,
        query=SearchQuery,
        answers={200: TaskPage},
    ),
    Operation(
        name="requeueTasks",
        method="POST",
        path="/tasks/requeue",
        summary="Run failed or cancelled tasks again",
        handler=requeue,
        scope=Scope.ADMIN,
        body=RequeueRequest,
        answers={200: Requeued},
        audited=True,
    ),
)
