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
    """See ``AuditScan``."""

    @property
    def has_serial_arrivals(self) -> bool:
        """See ``AuditScan.has_serial_arrivals``."""
        return self._description.has_serial_arrivals

    def arrivals(self, job_ids: Sequence[str]) -> dict[str, int]:
        """See ``AuditScan.arrivals``."""
        self._validation.check_ids(job_ids)
        places: dict[str, int] = self._call("arrivals", messages.JobsArguments(job_ids=list(job_ids)))
        return places

    @property
    def has_numbered_ledger(self) -> bool:
        """See ``AuditScan.has_numbered_ledger``."""
        return self._description.has_numbered_ledger

    def trimmed_rows(self) -> int | None:
        """See ``AuditScan.trimmed_rows``."""
        count: int | None = self._call("trimmed_rows", Arguments())
        return count


class HttpCancelWait(HttpDriver):
    """See ``CancelWait``."""

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """See ``CancelWait.wait_for_cancel``."""
        self._validation.check_wait_for_cancel(job_ids, timeout)

        def ask(seconds: float) -> bool:
            arguments = messages.WaitForCancelArguments(job_ids=list(job_ids), timeout=seconds)
            is_requested: bool = self._call("wait_for_cancel", arguments, waits=seconds)
            return is_requested

        return wait_in_parts(ask, timeout, pause=self._service.connections.pause)


class HttpCountEstimates(HttpDriver):
    """See ``CountEstimates``."""

    def estimate_counts(
        self,
        queues: Sequence[str] | None = None,
        *,
        states: Collection[State] | None = None,
        now: int | None = None,
    ) -> list[QueueCounts]:
        """See ``CountEstimates.estimate_counts``."""
        return self._count("estimate_counts", queues, states, now)


class HttpDiagnosis(HttpDriver):
    """See ``Diagnosis``. Needs the role admin."""

    def count_expired_leases(self, *, expired_for: int = 0, now: int | None = None) -> int:
        """See ``Diagnosis.count_expired_leases``."""
        arguments = messages.CountExpiredArguments(expired_for=expired_for, now=self._now(now))
        count: int = self._call("count_expired_leases", arguments)
        return count

    def table_sizes(self) -> dict[str, int]:
        """See ``Diagnosis.table_sizes``."""
        sizes: dict[str, int] = self._call("table_sizes", Arguments())
        return sizes


class HttpLeasedEnqueue(HttpDriver):
    """See ``LeasedEnqueue``."""

    def enqueue_leased(
        self, jobs: Sequence[JobRecord], *, lease_for: int, worker: str = "", now: int | None = None
    ) -> tuple[list[Enqueued], list[Reservation]]:
        """See ``LeasedEnqueue.enqueue_leased``."""
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
    """See ``LedgerDiagnosis``. Needs the role admin."""

    def ledger_delay(self) -> LedgerDelay | None:
        """See ``LedgerDiagnosis.ledger_delay``."""
        delay: LedgerDelay | None = self._call("ledger_delay", Arguments())
        return delay


class HttpLedgerScan(HttpDriver):
    """See ``LedgerScan``."""

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """See ``LedgerScan.ledger_tuples``."""
        self._validation.check_page(limit)
        page: tuple[list[list[Any]], str] = self._call(
            "ledger_tuples", messages.LedgerArguments(after=after, limit=limit)
        )
        return page

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """See ``LedgerScan.ledger_marks``."""
        self._validation.check_page(every)
        arguments = messages.LedgerMarksArguments(after=after, every=every, most=most)
        marks: list[tuple[str, int]] = self._call("ledger_marks", arguments)
        return marks


class HttpSpaceAdmin(HttpDriver):
    """See ``SpaceAdmin``. Needs the role admin."""

    def spaces(
        self, *, after: str = "", limit: int = 100, has_expired_leases: bool = False, now: int | None = None
    ) -> Page[str]:
        """See ``SpaceAdmin.spaces``."""
        self._validation.check_spaces(after, limit)
        arguments = messages.SpacesArguments(
            after=after, limit=limit, has_expired_leases=has_expired_leases, now=self._now(now)
        )
        page: Page[str] = self._call("spaces", arguments)
        return page

    def remove_space(
        self, name: str, *, force: bool = False, limit: int = bounds.MAX_BATCH_ITEMS, now: int | None = None
    ) -> SpaceRemoval:
        """See ``SpaceAdmin.remove_space``."""
        self._validation.check_page(limit)
        bounds.check_name("space", name)
        arguments = messages.RemoveSpaceArguments(name=name, force=force, limit=limit, now=self._now(now))
        removal: SpaceRemoval = self._call("remove_space", arguments)
        return removal


class HttpWebhookScan(HttpDriver):
    """See ``WebhookScan``."""

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """See ``WebhookScan.webhooks``."""
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
