"""Domains for operators: their list, and the calls by which a stopped domain goes on."""

from __future__ import annotations

from holdfast.drivers.answers import Page
from holdfast.drivers.cursors import domain_cursor
from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.requests import FIND_LIMIT, Domains, Resume
from holdfast.model.domain import DomainInfo, DomainStatus


def domains(database: Database, request: Domains) -> Page[DomainInfo]:
    """Return a page of domains. One more than its limit is read, to see whether there is a next page."""
    limit, is_filtered = request.limit, request.status is not None or request.name is not None
    after_queue, after_domain = request.start or ("", "")
    rows = database.call(
        "list_domains",
        request.now,
        request.queue,
        request.name,
        request.status,
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


def resume(database: Database, request: Resume) -> bool:
    """Let a domain go on. Not repeated when the reply is lost: it would change nothing again."""
    place = (request.queue, request.domain)
    arguments = (request.now, database.channel, *place, request.action.value, request.position)
    [(is_changed,)] = database.call("resume_domain", *arguments, is_repeatable=False)
    return bool(is_changed)


def forget_domain(database: Database, queue: str, domain: str) -> bool:
    """Remove what a domain remembers."""
    [(is_changed,)] = database.call("forget_domain", queue, domain, is_repeatable=False)
    return bool(is_changed)
