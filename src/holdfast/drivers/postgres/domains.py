"""Domains for operators: their list, and the calls by which a stopped domain goes on."""

from __future__ import annotations

from holdfast.drivers.contract import FIND_LIMIT, DomainInfo, DomainStatus, Page, ResumeAction
from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.validation import domain_cursor


def domains(
    database: Database,
    caller_now: int | None,
    *,
    queue: str | None,
    status: DomainStatus | None,
    name: str | None,
    limit: int,
    after: tuple[str, str] | None,
) -> Page[DomainInfo]:
    """Return a page of the domains that have an open job or are halted, ordered by queue and name.

    One more than ``limit`` is read, to see whether there is a next page.
    """
    is_filtered = status is not None or name is not None
    after_queue, after_domain = after or ("", "")
    rows = database.call(
        "list_domains",
        caller_now,
        queue,
        name,
        status,
        after_queue,
        after_domain,
        limit + 1,
        FIND_LIMIT if is_filtered else limit + 1,
    )
    found = [_read_domain(row) for row in rows if row[2] is not None]
    if len(found) > limit:
        last = found[limit - 1]
        return Page(found[:limit], domain_cursor(last.queue, last.domain))
    ends = [row for row in rows if row[2] is None]  # of a call that did not read all domains
    return Page(found, domain_cursor(ends[0][0], ends[0][1]) if ends else None)


def _read_domain(row: Row) -> DomainInfo:
    queue, name, status, position, count, waits_for, since, halted_by, halted_at, head_id, head_offset, is_overdue = row
    return DomainInfo(
        queue=queue,
        domain=name,
        status=DomainStatus(status),
        position=position,
        open=count,
        waits_for=waits_for,
        waiting_since=since,
        halted_by=halted_by,
        halted_at=halted_at,
        head_id=head_id,
        head_offset=head_offset,
        is_overdue=is_overdue,
    )


def resume(
    database: Database, caller_now: int | None, *, queue: str, domain: str, action: ResumeAction, position: int | None
) -> bool:
    """Let a halted domain go on, as ``action`` says; return whether this call changed the domain.

    Not repeated when the reply is lost: it would change nothing again.
    """
    arguments = (caller_now, database.channel, queue, domain, action.value, position)
    [(is_changed,)] = database.call("resume_domain", *arguments, is_repeatable=False)
    return bool(is_changed)


def forget_domain(database: Database, queue: str, domain: str) -> bool:
    """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt."""
    [(is_changed,)] = database.call("forget_domain", queue, domain, is_repeatable=False)
    return bool(is_changed)
