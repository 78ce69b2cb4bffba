"""Domains that stay as they are until somebody acts: halted ones, and those that wait for a missing offset for ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Counts, Domains, Settings
from holdfast.drivers.store import Store
from holdfast.model.domain import DomainInfo, DomainStatus
from holdfast.model.job import State
from holdfast.model.queue_settings import Gaps

PAGE_DOMAINS = 1000
OPEN_STATES = (State.READY, State.INFLIGHT)


def has_only_blocked(store: Store, queues: Sequence[str]) -> bool:
    """Whether every open job of these queues is in such a domain: no worker can run any of them."""
    blocked = sum(domain.open for queue in queues for domain in blocked_domains(store, queue))
    if not blocked:
        return False
    counts = store.do(Counts(queues=queues, states=OPEN_STATES))
    return sum(row.ready + row.scheduled + row.inflight for row in counts) <= blocked


def blocked_domains(store: Store, queue: str) -> Iterator[DomainInfo]:
    """Yield such domains of a queue."""
    if not store.capabilities.has(Feature.DOMAINS):
        return
    yield from walk_domains(store, queue, DomainStatus.HALTED)
    if store.capabilities.has(Feature.LIMITS):
        settings = store.do(Settings(queue=queue))
        if settings.gaps is Gaps.WAIT and settings.gap_pass_after is None:
            yield from walk_domains(store, queue, DomainStatus.WAITING)


def walk_domains(store: Store, queue: str | None, status: DomainStatus) -> Iterator[DomainInfo]:
    """Yield the domains of a queue, or of all queues, that have this status, page by page. Raises ``StoreError``."""
    after: str | None = None
    while True:
        page = store.do(Domains(queue=queue, status=status, limit=PAGE_DOMAINS, after=after))
        yield from page
        after = page.cursor
        if after is None:
            return
