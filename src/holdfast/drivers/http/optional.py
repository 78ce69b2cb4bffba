"""The optional protocols of the contract over HTTP. A driver has those that the store behind the service offers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from holdfast.drivers.contract import Page, QueueCounts
from holdfast.drivers.http.driver import HttpDriver, new_call_id
from holdfast.drivers.http.wait import wait_in_parts
from holdfast.drivers.optional import LedgerDelay, SpaceRemoval
from holdfast.drivers.remote import arguments as messages
from holdfast.drivers.remote.arguments import Arguments
from holdfast.drivers.remote.description import DriverDescription
from holdfast.drivers.remote.rows import pack_jobs
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Reservation


class HttpAuditScan(HttpDriver):
    """The verbs of ``AuditScan``, over HTTP."""

    @property
    def has_serial_arrivals(self) -> bool:
        """Whether of two calls of enqueue one always commits before the other reads the clock."""
        return self._description.has_serial_arrivals

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """Return the places of these jobs in the order of arrival (L11); a requeued job arrives again."""
        self._validation.check_ids(job_ids)
        places: dict[str, int] = self._call("arrivals", messages.JobsArguments(job_ids=list(job_ids)))
        return places

    @property
    def has_numbered_ledger(self) -> bool:
        """Whether the cursor of a ledger row is its number, which counts all rows of the space from 1."""
        return self._description.has_numbered_ledger

    def trimmed_rows(self) -> int | None:
        """Return how many ledger rows ``trim`` has removed; None if it has removed some and does not count them."""
        count: int | None = self._call("trimmed_rows", Arguments())
        return count


class HttpCancelWait(HttpDriver):
    """The verbs of ``CancelWait``, over HTTP."""

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Block until a cancel is requested for one of these jobs in flight, for at most ``timeout`` seconds."""
        self._validation.check_wait_for_cancel(job_ids, timeout)

        def ask(seconds: float) -> bool:
            arguments = messages.WaitForCancelArguments(job_ids=list(job_ids), timeout=seconds)
            is_requested: bool = self._call("wait_for_cancel", arguments, waits=seconds)
            return is_requested

        return wait_in_parts(ask, timeout, pause=self._service.connections.pause)


class HttpCountEstimates(HttpDriver):
    """The verbs of ``CountEstimates``, over HTTP."""

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """Return what ``counts`` returns, and read a bounded number of rows, whatever the space contains."""
        return self._count("estimate_counts", queues, states, now)


class HttpDiagnosis(HttpDriver):
    """The verbs of ``Diagnosis``, over HTTP. Needs the role admin."""

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """Return how many leases expired at least so many microseconds ago and were not reaped; at most REAP_LIMIT."""
        arguments = messages.CountExpiredArguments(expired_for=expired_for, now=self._now(now))
        count: int = self._call("count_expired_leases", arguments)
        return count

    def table_sizes(self) -> dict[str, int]:
        """Return the bytes that each table takes with its indexes, or each part of a store without sizes of tables."""
        sizes: dict[str, int] = self._call("table_sizes", Arguments())
        return sizes


class HttpLeasedEnqueue(HttpDriver):
    """The verbs of ``LeasedEnqueue``, over HTTP."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """Enqueue the jobs and lease all of them, or none of them, in one transaction."""
        self._validation.check_enqueue(jobs)
        self._validation.check_lease(lease_for, worker)
        arguments = messages.EnqueueLeasedArguments(
            jobs=pack_jobs(jobs),
            lease_for=lease_for,
            worker=worker,
            now=self._now(now),
            call_id=new_call_id(),
        )
        answers: tuple[list[Enqueued], list[Reservation]] = self._call("enqueue_leased", arguments)
        return answers


class HttpLedgerDiagnosis(HttpDriver):
    """The verbs of ``LedgerDiagnosis``, over HTTP. Needs the role admin."""

    def ledger_delay(self) -> LedgerDelay | None:
        """Return the transaction that delays the readers of the ledger; None if there is none."""
        delay: LedgerDelay | None = self._call("ledger_delay", Arguments())
        return delay


class HttpLedgerScan(HttpDriver):
    """The verbs of ``LedgerScan``, over HTTP."""

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """Return a page of tuples and its cursor."""
        self._validation.check_page(limit)
        page: tuple[list[list[Any]], str] = self._call(
            "ledger_tuples", messages.LedgerArguments(after=after, limit=limit)
        )
        return page

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """Return cursors that split the next ``most`` rows into ranges of ``every`` rows."""
        self._validation.check_page(every)
        arguments = messages.LedgerMarksArguments(after=after, every=every, most=most)
        marks: list[tuple[str, int]] = self._call("ledger_marks", arguments)
        return marks


class HttpSpaceAdmin(HttpDriver):
    """The verbs of ``SpaceAdmin``, over HTTP. Needs the role admin."""

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """Return a page of the names of the spaces that have rows, in order."""
        self._validation.check_spaces(after, limit)
        arguments = messages.SpacesArguments(
            after=after, limit=limit, has_expired_leases=has_expired_leases, now=self._now(now)
        )
        page: Page[str] = self._call("spaces", arguments)
        return page

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """Remove up to ``limit`` rows of a space: its jobs, ledger, keys, settings and registry."""
        self._validation.check_page(limit)
        bounds.check_name("space", name)
        arguments = messages.RemoveSpaceArguments(name=name, force=force, limit=limit, now=self._now(now))
        removal: SpaceRemoval = self._call("remove_space", arguments)
        return removal


class HttpWebhookScan(HttpDriver):
    """The verbs of ``WebhookScan``, over HTTP."""

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of these jobs, in any state, by job id."""
        self._validation.check_ids(job_ids)
        found: dict[str, str] = self._call("webhooks", messages.JobsArguments(job_ids=list(job_ids)))
        return found


_CLASSES: dict[str, type[HttpDriver]] = {
    one.__name__.removeprefix("Http"): one
    for one in (
        HttpAuditScan,
        HttpCancelWait,
        HttpCountEstimates,
        HttpDiagnosis,
        HttpLeasedEnqueue,
        HttpLedgerDiagnosis,
        HttpLedgerScan,
        HttpSpaceAdmin,
        HttpWebhookScan,
    )
}


def driver_class(description: DriverDescription) -> type[HttpDriver]:
    """Return a driver with the optional protocols that the service offers."""
    return _compose(tuple(name for name in description.optional if name in _CLASSES))


@cache
def _compose(names: tuple[str, ...]) -> type[HttpDriver]:
    if not names:
        return HttpDriver
    return type("HttpDriver", tuple(_CLASSES[name] for name in names), {})
