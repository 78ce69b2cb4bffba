"""Messages of operators about domains."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from holdfast.model.domain import DomainStatus, ResumeAction
from holdfast.service.schemas.fields import Answer, Instant, Name, Offset, Request, Text

MAX_PAGE_DOMAINS = 1000


class DomainQuery(Request):
    """Which domains to list."""

    queue: Name | None = None
    domain: Text | None = None  # exact
    status: DomainStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_DOMAINS)] = 100
    after: Annotated[str, Meta(max_length=1024)] | None = None  # the cursor of the page before


class Domain(Answer):
    """A domain of a queue. ``position`` is the smallest offset, from the start of the domain, that has not ended."""

    queue: str
    domain: str
    status: DomainStatus
    position: int
    open_tasks: int
    waits_for: int | None  # the missing offset
    waiting_since: Instant | None
    overdue: bool
    halted_by: str | None  # the id of the failed task
    halted_at: Instant | None
    first_task_id: str | None
    first_offset: int | None


class DomainPage(Answer):
    """A page of domains. Only a cursor of null is the end: a page may have few domains and still have a cursor."""

    domains: list[Domain]
    cursor: str | None


class ResumeDomainRequest(Request):
    """How a halted domain goes on, or from which offset on a domain waits for offsets."""

    domain: Text
    action: ResumeAction = ResumeAction.RESUME
    position: Offset | None = None


class ResumedDomain(Answer):
    """Whether the call changed the domain."""

    changed: bool
