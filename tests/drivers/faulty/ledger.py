"""Faulty drivers: the ledger and its retention."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from holdfast.drivers import requests as r
from holdfast.drivers.answers import Diagnosis, Inspection, Page, Trimmed
from holdfast.drivers.memory import admin
from holdfast.drivers.memory.rows import Row
from holdfast.errors import LedgerTrimmed
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.retention import Retention
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class _OmitsRowsSpace(FaultySpace):
    omitted_endings: tuple[Ending, ...] = (Ending.EXPIRED,)

    def write_ledger(
        self, row: Row, *, ending: Ending, state: State | None, now: int, detail: str = "", error: str = ""
    ) -> None:
        if ending not in self.omitted_endings:
            super().write_ledger(row, ending=ending, state=state, now=now, detail=detail, error=error)


class LedgerOmitsExpiry(FaultyDriver):
    """An expired lease writes no ledger row."""

    space_type = _OmitsRowsSpace


class _OmitsOperatorRowsSpace(_OmitsRowsSpace):
    omitted_endings = (Ending.PURGED, Ending.REQUEUED)


class LedgerOmitsOperators(FaultyDriver):
    """Requeue and purge write no ledger row."""

    space_type = _OmitsOperatorRowsSpace


class _OldStateSpace(FaultySpace):
    def write_ledger(
        self, row: Row, *, ending: Ending, state: State | None, now: int, detail: str = "", error: str = ""
    ) -> None:
        del state
        super().write_ledger(row, ending=ending, state=row.job.state, now=now, detail=detail, error=error)


class LedgerHasOldState(FaultyDriver):
    """A ledger row has the state before the ending."""

    space_type = _OldStateSpace


class LedgerCursorSkipsRow(FaultyDriver):
    """A cursor skips one row."""

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return a page and a cursor after the next row, which is skipped."""
        page = super().ledger(request)
        return replace(page, cursor=str(int(page.cursor or 0) + 1)) if page.items else page


class LedgerEndHasNoCursor(FaultyDriver):
    """The last page has no cursor: a reader starts again from the first row."""

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return a page; an empty page has no cursor."""
        page = super().ledger(request)
        return page if page.items else replace(page, cursor=None)


class LedgerTailBeginsAtTheStart(FaultyDriver):
    """The tail has the first rows of the ledger, not the last ones."""

    def ledger_tail(self, request: r.LedgerTail) -> Page[LedgerRow]:
        """Return the first rows."""
        page = super().ledger_tail(request)
        return Page(self._space.ledger.rows[: len(page)], page.cursor)


class LedgerTailSkipsRow(FaultyDriver):
    """Reading backwards skips a row between two pages."""

    def ledger_tail(self, request: r.LedgerTail) -> Page[LedgerRow]:
        """Return a cursor before the next row, which is skipped."""
        page = super().ledger_tail(request)
        return page if page.cursor in {None, "0"} else replace(page, cursor=str(int(page.cursor or 0) - 1))


class TrimmedLedgerIsWhole(FaultyDriver):
    """A ledger without its first row claims to be whole: an audit would report rows that were trimmed as lost."""

    def diagnose(self, request: r.Diagnose) -> Diagnosis:
        """Return 0, also after a trim."""
        return structs.replace(super().diagnose(request), trimmed_rows=0)


class TrimmedRowsSkipped(FaultyDriver):
    """A reader whose next rows were trimmed gets later rows, not an error."""

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return the rows that are left."""
        try:
            return super().ledger(request)
        except LedgerTrimmed:
            return super().ledger(structs.replace(request, after=None))


class TrimIgnoresReaders(FaultyDriver):
    """A trim removes rows that a registered reader has not read."""

    def reader_cursors(self, now: int | None) -> list[str | None]:
        """Find no reader."""
        del now
        return []


class TrimKeepsOnlyUnreadRows(FaultyDriver):
    """A trim waits for readers with the rows of the ledger, but removes the jobs that they are about."""

    def trim(self, request: r.Trim) -> Trimmed:
        """Trim jobs as if nobody read the ledger."""
        keep = Retention(ended_for=request.ended_for or Retention().ended_for, ledger_for=bounds.MAX_DURATION)
        jobs = admin.trim(self._space, keep, [], limit=request.limit, now=self._now(request))
        trimmed = super().trim(request)
        return replace(trimmed, jobs=trimmed.jobs + jobs.jobs)


class PurgeIgnoresReaders(FaultyDriver):
    """A purge removes a job whose ending a registered reader has not read."""

    def purge(self, request: r.Purge) -> list[bool]:
        """Remove ended jobs at once."""
        return admin.purge(self._space, request.job_ids, [], self._now(request))


class RowsShareTheCursorOfTheirPage(FaultyDriver):
    """A reader that stops inside a page loses the rest of it."""

    def ledger(self, request: r.Ledger) -> Page[LedgerRow]:
        """Return a page whose rows all have the last cursor."""
        page = super().ledger(request)
        return replace(page, cursors=[page.cursor or ""] * len(page))


class WebhooksOfEndedJobsAreForgotten(FaultyDriver):
    """The webhook of a job cannot be found when the job has ended."""

    def inspect(self, request: r.Inspect) -> dict[str, Inspection]:
        """Return jobs that have ended without their webhooks."""
        found = super().inspect(request)
        return {
            job_id: replace(one, job=structs.replace(one.job, webhook=None)) if one.job.state.has_ended else one
            for job_id, one in found.items()
        }


class TrimIgnoresStoredRetention(FaultyDriver):
    """A trim without durations follows the defaults, not the retention that the space stores."""

    def retention_of(self, request: r.Trim) -> Retention:
        """Return what the call says, else the defaults."""
        return Retention(**request.given)


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    LedgerOmitsExpiry,
    LedgerOmitsOperators,
    LedgerHasOldState,
    LedgerCursorSkipsRow,
    LedgerEndHasNoCursor,
    LedgerTailBeginsAtTheStart,
    LedgerTailSkipsRow,
    TrimmedLedgerIsWhole,
    TrimmedRowsSkipped,
    TrimIgnoresReaders,
    TrimKeepsOnlyUnreadRows,
    PurgeIgnoresReaders,
    RowsShareTheCursorOfTheirPage,
    WebhooksOfEndedJobsAreForgotten,
    TrimIgnoresStoredRetention,
)
