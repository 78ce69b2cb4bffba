"""Calls of operators about domains: list, resume. A name of a domain is any text, so it is in no path."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.requests import Domains, Resume
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.schemas.domains import Domain, DomainPage, DomainQuery, ResumedDomain, ResumeDomainRequest
from holdfast.service.schemas.fields import instant


async def list_domains(call: Call) -> Reply:
    """Return a page of the domains that have open tasks or are halted."""
    query: DomainQuery = call.query
    request = Domains(queue=query.queue, status=query.status, name=query.domain, limit=query.limit, after=query.after)
    page = await call.tenant.calls.run(call.tenant.store.do, request)
    return Reply(content=DomainPage(domains=[_domain(one) for one in page], cursor=page.cursor))


async def resume_domain(call: Call) -> Reply:
    """Let a halted domain go on, or move the position of one that waits."""
    body: ResumeDomainRequest = call.body
    queue = bounds.check_name("queue", call.path["queue"])
    request = Resume(queue=queue, domain=body.domain, action=body.action, position=body.position)
    changed = await call.tenant.calls.run(call.tenant.store.do, request)
    call.tenant.resumed()
    return Reply(content=ResumedDomain(changed=changed))


def _domain(info: DomainInfo) -> Domain:
    return Domain(
        queue=info.queue,
        domain=info.domain,
        status=info.status,
        position=info.position,
        open_tasks=info.open,
        waits_for=info.waits_for,
        waiting_since=instant(info.waiting_since),
        overdue=info.is_overdue,
        halted_by=info.halted_by,
        halted_at=instant(info.halted_at),
        first_task_id=info.head_id,
        first_offset=info.head_offset,
    )


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="listDomains",
        method="GET",
        path="/domains",
        summary="List the domains that have open tasks or are halted",
        handler=list_domains,
        scope=Scope.ADMIN,
        query=DomainQuery,
        answers={200: DomainPage},
    ),
    Operation(
        name="resumeDomain",
        method="POST",
        path="/queues/{queue}/domains/resume",
        summary="Let a halted domain go on, or move its position",
        handler=resume_domain,
        scope=Scope.ADMIN,
        body=ResumeDomainRequest,
        answers={200: ResumedDomain},
        audited=True,
    ),
)
