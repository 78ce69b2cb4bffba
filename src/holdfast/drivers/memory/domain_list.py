"""``Admin.domains``: the domains of a space as an operator sees them."""

from __future__ import annotations

from holdfast.drivers.answers import Page
from holdfast.drivers.cursors import domain_cursor
from holdfast.drivers.memory.domains import Domain, Place
from holdfast.drivers.memory.space import Space
from holdfast.model.domain import DomainInfo, DomainStatus
from holdfast.model.job import State
from holdfast.model.lease import is_expired


def list_domains(
    space: Space,
    queue: str | None,
    *,
    status: DomainStatus | None,
    name: str | None,
    limit: int,
    after: Place | None,
    now: int,
) -> Page[DomainInfo]:
    """Return a page of the domains that have an open job or are halted, ordered by queue and name."""
    is_one = queue is not None and name is not None
    places = [
        place
        for place, domain in sorted(space.domains.items(), key=lambda item: item[0])
        if queue in (None, place[0])
        and name in (None, place[1])
        and (after is None or place > after)
        and (is_one or domain.jobs or domain.halt is not None)
    ]
    infos = (read_domain(space, place, now) for place in places)
    found = [info for info in infos if status in (None, info.status)]
    page = found[:limit]
    return Page(page, domain_cursor(page[-1].queue, page[-1].domain) if len(found) > limit else None)


def read_domain(space: Space, place: Place, now: int) -> DomainInfo:
    """Return a domain with its status."""
    domain = space.domains[place]
    head_id = domain.turn or (domain.jobs[0][2] if domain.jobs else None)
    gap, wait = space.gap_of(place), space.waits.get(place)
    since = wait.since if wait is not None and wait.offset == gap else None
    report_after = space.settings_of(place[0]).gap_report_after
    return DomainInfo(
        queue=place[0],
        domain=place[1],
        status=_status(space, domain, head_id, gap, now),
        position=domain.position,
        open=len(domain.jobs),
        waits_for=gap,
        waiting_since=since,
        halted_by=None if domain.halt is None else domain.halt.job_id,
        halted_at=None if domain.halt is None else domain.halt.at,
        head_id=head_id,
        head_offset=None if head_id is None else space.rows[head_id].job.offset,
        is_overdue=since is not None and report_after is not None and is_expired(since + report_after, now),
    )


def _status(space: Space, domain: Domain, head_id: str | None, gap: int | None, now: int) -> DomainStatus:
    if domain.halt is not None:
        return DomainStatus.HALTED
    if gap is not None:
        return DomainStatus.WAITING
    if head_id is None:
        return DomainStatus.OPEN
    head = space.rows[head_id]
    if head.job.state is State.INFLIGHT:
        return DomainStatus.RUNNING
    return DomainStatus.BACKOFF if head.available_at > now else DomainStatus.OPEN
