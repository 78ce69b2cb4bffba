"""Faulty drivers: the ledger and its retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.drivers.contract import Page, Registry, Trimmed
from holdfast.drivers.memory import admin
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.validation import Validation
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

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page and a cursor after the next row, which is skipped."""
        page = super().ledger(after, limit)
        return replace(page, cursor=str(int(page.cursor or 0) + 1)) if page.items else page


class LedgerEndHasNoCursor(FaultyDriver):
    """The last page has no cursor: a reader starts again from the first row."""

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page; an empty page has no cursor."""
        page = super().ledger(after, limit)
        return page if page.items else replace(page, cursor=None)


class LedgerTailBeginsAtTheStart(FaultyDriver):
    """The tail has the first rows of the ledger, not the last ones."""

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the first rows."""
        page = super().ledger_tail(before, limit)
        return Page(super().ledger(None, limit).items[: len(page)], page.cursor)


class LedgerTailSkipsRow(FaultyDriver):
    """Reading backwards skips a row between two pages."""

    def ledger_tail(self, before: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a cursor before the next row, which is skipped."""
        page = super().ledger_tail(before, limit)
        return page if page.cursor in {None, "0"} else replace(page, cursor=str(int(page.cursor or 0) - 1))


class TrimmedLedgerIsWhole(FaultyDriver):
    """A ledger without its first row claims to be whole: an audit would report rows that were trimmed as lost."""

    def trimmed_rows(self) -> int | None:
        """Return 0, also after a trim."""
        return 0


class TrimmedRowsSkipped(FaultyDriver):
    """A reader whose next rows were trimmed gets later rows, not an error."""

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return the rows that are left."""
        try:
            return super().ledger(after, limit)
        except LedgerTrimmed:
            return super().ledger(None, limit)


class _IgnoresReaders(Validation):
    def reader_cursors(self, registry: Registry, *, now: int | None) -> list[str | None]:
        del registry, now
        return []


class TrimIgnoresReaders(FaultyDriver):
    """A trim removes rows that a registered reader has not read."""

    validation = _IgnoresReaders


class TrimKeepsOnlyUnreadRows(FaultyDriver):
    """A trim waits for readers with the rows of the ledger, but removes the jobs that they are about."""

    def trim(
        self,
        *,
        ended_for: int | None = None,
        ledger_for: int | None = None,
        limit: int = bounds.MAX_BATCH_ITEMS,
        now: int | None = None,
    ) -> Trimmed:
        """Trim jobs as if nobody read the ledger."""
        with self._lock:
            space, at = self._open(now)
            keep = Retention(ended_for=ended_for or Retention().ended_for, ledger_for=bounds.MAX_DURATION)
            jobs = admin.trim(space, keep, [], limit=limit, now=at)
        trimmed = super().trim(ended_for=ended_for, ledger_for=ledger_for, limit=limit, now=now)
        return replace(trimmed, jobs=trimmed.jobs + jobs.jobs)


class PurgeIgnoresReaders(FaultyDriver):
    """A purge removes a job whose ending a registered reader has not read."""

    def purge(self, job_ids: Sequence[str], *, now: int | None = None) -> list[bool]:
        """Remove ended jobs at once."""
        self._validation.check_ids(job_ids)
        with self._lock:
            space, at = self._open(now)
            return admin.purge(space, job_ids, [], at)


class RowsShareTheCursorOfTheirPage(FaultyDriver):
    """A reader that stops inside a page loses the rest of it."""

    def ledger(self, after: str | None = None, limit: int = 1000) -> Page[LedgerRow]:
        """Return a page whose rows all have the last cursor."""
        page = super().ledger(after, limit)
        return replace(page, cursors=[page.cursor or ""] * len(page))


class WebhooksOfEndedJobsAreForgotten(FaultyDriver):
    """The webhook of a job cannot be found when the job has ended."""

    def webhooks(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the webhooks of jobs that have not ended."""
        found = super().webhooks(job_ids)
        return {job_id: url for job_id, url in found.items() if not self._space.rows[job_id].job.state.has_ended}


class _IgnoresStoredRetention(Validation):
    def retention(
        self, registry: Registry, *, ended_for: int | None, ledger_for: int | None, now: int | None
    ) -> Retention:
        default = Retention()
        kept = {"ended_for": ended_for or default.ended_for, "ledger_for": ledger_for or default.ledger_for}
        return super().retention(registry, **kept, now=now)


class TrimIgnoresStoredRetention(FaultyDriver):
    """A trim without durations follows the defaults, not the retention that the space stores."""

    validation = _IgnoresStoredRetention


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
