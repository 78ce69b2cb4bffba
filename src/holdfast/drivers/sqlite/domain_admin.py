"""The verbs of ``Admin`` for domains: list them, let one go on, forget one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import takewhile

from holdfast.drivers.answers import Page
from holdfast.drivers.cursors import domain_cursor
from holdfast.drivers.requests import FIND_LIMIT, Domains, Resume
from holdfast.drivers.sqlite import admin
from holdfast.drivers.sqlite.domains import Place, assign_turns, end_halts, missing_before, open_domains, position_of
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.job import State
from holdfast.model.lease import is_expired
from holdfast.model.queue_settings import Gaps


def domains(tx: Transaction, request: Domains) -> Page[DomainInfo]:
    """Return a page of domains."""
    queue, status, name, limit, after = request.queue, request.status, request.name, request.limit, request.start
    if queue is not None and name is not None:
        place = (queue, name)
        info = _describe(tx, place, remembered=True) if after is None or place > after else None
        return Page([info] if info is not None and status in (None, info.status) else [], None)
    infos: list[DomainInfo] = []
    read = 0
    last = after or ("", "")
    for place in _find(tx, queue, status, last):
        if read >= FIND_LIMIT:
            return Page(infos, domain_cursor(*last))
        last = place
        read += 1
        info = _describe(tx, place) if name in (None, place[1]) else None
        if info is not None:
            read += info.open
            if status in (None, info.status):
                if len(infos) == limit:
                    return Page(infos, domain_cursor(infos[-1].queue, infos[-1].domain))
                infos.append(info)
    return Page(infos, None)


def _find(tx: Transaction, queue: str | None, status: DomainStatus | None, after: Place) -> Iterator[Place]:
    """Return the domains that have an open job or are halted, and may have this status, after one of them."""
    start = after if queue is None else max(after, (queue, ""))
    places: Iterator[Place]
    match status:
        case DomainStatus.HALTED:
            places = tx.run("domains/halted", (tx.space, *start))
        case DomainStatus.WAITING:
            places = tx.run("domains/waiting", (tx.space, *start))
        case _:
            halted = tx.run("domains/halted", (tx.space, *start))
            places = _without_repeats(heapq.merge(open_domains(tx, start), halted))
    return takewhile(lambda place: queue is None or place[0] == queue, places)


def _without_repeats(places: Iterator[Place]) -> Iterator[Place]:
    last = None
    for place in places:
        if place != last:
            yield place
        last = place


def _describe(tx: Transaction, place: Place, *, remembered: bool = False) -> DomainInfo | None:
    """Return a domain with an open job or a halt; with ``remembered`` also one with ended offsets or a moved start."""
    queue, domain = place
    row = tx.run("domains/describe", {"space": tx.space, "queue": queue, "domain": domain}).fetchone()
    start, ended_upto, has_ended, halted_by, halted_at, waits_for, waiting_since, gaps, report_after, count, *head = row
    head_id, head_offset, head_state, due_at = head
    if not count and halted_by is None and not (remembered and (start or has_ended)):
        return None
    position = position_of(start, ended_upto)
    if halted_by is not None:
        status = DomainStatus.HALTED
    elif head_state == State.INFLIGHT:
        status = DomainStatus.RUNNING
    elif gaps == Gaps.WAIT and missing_before(head_offset, position) is not None:
        status = DomainStatus.WAITING
    else:
        status = DomainStatus.OPEN if due_at is None or due_at <= tx.now else DomainStatus.BACKOFF
    is_waiting = status is DomainStatus.WAITING
    since = waiting_since if is_waiting and waits_for == position else None
    return DomainInfo(
        queue=queue,
        domain=domain,
        status=status,
        position=position,
        open=count,
        waits_for=position if is_waiting else None,
        waiting_since=since,
        halted_by=halted_by,
        halted_at=halted_at,
        head_id=head_id,
        head_offset=head_offset,
        is_overdue=since is not None and report_after is not None and is_expired(since + report_after, tx.now),
    )


def resume(tx: Transaction, request: Resume) -> bool:
    """Let a domain go on; return whether anything changed."""
    queue, domain, position = request.queue, request.domain, request.position
    start, halted_by = tx.run("domains/read", (tx.space, queue, domain)).fetchone() or (0, None)
    is_moved = position is not None and position != start
    if is_moved:
        tx.run("domains/set_start", (tx.space, queue, domain, position))
        tx.run("domains/remove_plain", (tx.space, queue, domain))
    if halted_by is not None:
        if request.action is ResumeAction.RETRY:
            admin.requeue(tx, [halted_by])
        else:
            end_halts(tx, [(queue, domain)])
    assign_turns(tx, [(queue, domain)])
    return is_moved or halted_by is not None


def forget(tx: Transaction, queue: str, domain: str) -> bool:
    """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt."""
    place = (tx.space, queue, domain)
    if tx.run("domains/has_open", place).fetchone()[0]:
        return False
    return tx.run("offsets/remove", place).rowcount + tx.run("domains/remove", place).rowcount > 0
