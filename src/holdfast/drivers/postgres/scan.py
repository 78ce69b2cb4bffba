"""For those who read by the million: pages of jobs and of the ledger, and marks that cut it into stretches.

A row of the ledger is decided once every older transaction is over. That is asked first, and the rows are read under a
later snapshot; how far the ledger was trimmed is asked again behind them: then that tells whether any were missing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.clock import monotonic
from holdfast.drivers.contract import JobFilter
from holdfast.drivers.postgres import tools
from holdfast.drivers.postgres.rows import RECORD, unpack_meta
from holdfast.drivers.postgres.tools import PostgresTools, position_of, strange
from holdfast.errors import InvalidInput, LedgerTrimmed

LOOK_EVERY = 0.005  # seconds between two looks for rows that an older transaction holds back


class _Limits(NamedTuple):
    """A row of ``ledger_limits.sql``."""

    horizon: int
    trimmed_xid: int
    trimmed_seq: int
    next_xid: int
    held_back: bool


class PostgresScan(PostgresTools):
    """``JobScan`` and ``LedgerScan``."""

    def job_columns(
        self, where: JobFilter, names: Sequence[str], *, limit: int, after: str | None = None
    ) -> tuple[Sequence[Sequence[object]], str | None]:
        """See ``JobScan.job_columns``."""
        asked = self.asked_for(where, limit, after)
        for name in names:
            if name not in RECORD:
                raise InvalidInput("names", wanted="fields of a JobRecord", got=name)
        found = self._page(self._statements.columns("find", RECORD, ["id", *names]), asked)
        if not found:
            return [()] * len(names), None
        ids, *columns = zip(*found[:limit], strict=True)
        told = [
            [unpack_meta(meta) for meta in columns[place]] if name == "meta" else columns[place]
            for place, name in enumerate(names)
        ]
        return told, ids[-1] if len(found) > limit else None

    def ledger_tuples(self, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
        """See ``LedgerScan.ledger_tuples``. An empty page is given a moment, as in ``Admin.ledger``."""
        self.validation.check_page(limit)
        deadline = monotonic() + tools.LEDGER_PATIENCE
        while True:
            limits, (xid, seq) = self._start(after)
            asked = {"space": self.space_name, "horizon": limits.horizon, "xid": xid, "seq": seq, "limit": limit}
            found = self._page(self._statements.query("ledger_rows"), asked)
            self._start(after)
            if found:
                *_, last_xid, last_seq = found[-1]
                return (
                    found,
                    f"{int.from_bytes(last_xid)}-{last_seq}",
                )  # as the server sends it: most are never looked at
            if not limits.held_back or monotonic() > deadline:
                return [], f"{xid}-{seq}"
            threading.Event().wait(LOOK_EVERY)

    def ledger_marks(self, after: str | None, *, every: int, most: int) -> list[tuple[str, int]]:
        """See ``LedgerScan.ledger_marks``."""
        self.validation.check_page(every)
        limits, (xid, seq) = self._start(after)
        asked = {"space": self.space_name, "horizon": limits.horizon}
        first = {**asked, "xid": xid, "seq": seq, "every": every, "marks": most // every}
        whole = self._page(self._statements.query("ledger_marks"), first)
        marks = [(f"{xid}-{seq}", every) for xid, seq in whole]
        xid, seq = whole[-1] if whole else (xid, seq)
        left = {**asked, "xid": xid, "seq": seq, "most": min(every, most - every * len(whole))}
        for rows, last_xid, last_seq in self._page(self._statements.query("ledger_rest"), left):
            marks.append((f"{last_xid}-{last_seq}", rows))
        self._start(after)
        return marks

    def _start(self, after: str | None) -> tuple[_Limits, tuple[int, int]]:
        """What is decided, and the place behind which to read. Raises ``LedgerTrimmed`` if rows behind it are gone."""
        [row] = self._query("ledger_limits", {"space": self.space_name})
        limits = _Limits(*row)
        trimmed = (limits.trimmed_xid, limits.trimmed_seq)
        if after is None:
            return limits, trimmed
        position = position_of(after)
        if position < trimmed:
            raise LedgerTrimmed(after)
        if position[0] >= limits.next_xid:
            raise strange(after)
        return limits, position
