"""``LedgerMetrics``: counts every ending of a store, of all workers and Spark slots, from the ledger.

The totals and the cursor are one entry of the registry, written by compare-and-set. So a restart goes on where the last
one stopped, no row is counted twice, and several exporters of one name share their totals. Only stored totals are
exported: a counter never goes back.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.requests import LedgerEnd, Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, LedgerTrimmed
from holdfast.model.job import State
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.registry import Change
from holdfast.observability import metric_table as table
from holdfast.observability.labels import BoundedNames, JobNames
from holdfast.observability.metrics import Histogram, InMemoryMetrics

KIND = "metrics.ledger"
DEFAULT_NAME = "prometheus"
MAX_NAMES = 100  # pairs of queue and type: all totals fit into one entry
PAGE_ROWS = 5_000
MAX_PAGES = 20  # in one update: then the caller can stop, or be scraped


@dataclass(slots=True)
class _JobTotals:
    """The totals of one queue and type."""

    endings: dict[Ending, int] = field(default_factory=lambda: dict.fromkeys(Ending, 0))
    dead: int = 0
    wait: Histogram = field(default_factory=lambda: Histogram(table.LEDGER_WAIT.buckets))
    run: Histogram = field(default_factory=lambda: Histogram(table.LEDGER_RUN.buckets))


@dataclass(slots=True)
class _Totals:
    """Everything that is stored between two updates."""

    cursor: str | None
    jobs: dict[JobNames, _JobTotals] = field(default_factory=dict)
    last_row_at: int = 0
    trimmed: int = 0

    def add(self, rows: Iterable[LedgerRow]) -> None:
        """Count rows."""
        bounded = BoundedNames(MAX_NAMES, self.jobs)
        groups: dict[JobNames, list[LedgerRow]] = {}
        for row in rows:
            groups.setdefault(bounded((row.queue, row.type)), []).append(row)
        for names, group in groups.items():
            totals = self.jobs.setdefault(names, _JobTotals())
            for row in group:
                totals.endings[row.ending] += 1
            totals.dead += sum(row.state is State.DEAD for row in group)
            totals.wait.add([_seconds(row.available_at, row.reserved_at) for row in group if row.reserved_at])
            totals.run.add([_seconds(row.started_at, row.ended_at) for row in group if row.started_at])
            self.last_row_at = max(self.last_row_at, group[-1].ended_at)

    def pack(self) -> bytes:
        """Return the totals as the registry keeps them."""
        jobs = [
            [*names, list(one.endings.values()), one.dead, *(_pack(each) for each in (one.wait, one.run))]
            for names, one in self.jobs.items()
        ]
        value = {
            "cursor": self.cursor,
            "endings": list(Ending),
            "buckets": table.SECONDS,
            "jobs": jobs,
            "last_row_at": self.last_row_at,
            "trimmed": self.trimmed,
        }
        return zlib.compress(json.dumps(value, separators=(",", ":")).encode())

    @classmethod
    def unpack(cls, data: bytes) -> _Totals:
        """Return stored totals. Raises ``InvalidInput`` for those of another version, with other buckets."""
        try:
            value = json.loads(zlib.decompress(data))
            if tuple(value["buckets"]) != table.SECONDS:
                raise InvalidInput("metrics", wanted="totals with the buckets of this version", got=value["buckets"])
            jobs = {
                (queue, type_): _JobTotals(
                    endings=dict.fromkeys(Ending, 0) | dict(zip(map(Ending, value["endings"]), endings, strict=True)),
                    dead=dead,
                    wait=_unpack(wait),
                    run=_unpack(run),
                )
                for queue, type_, endings, dead, wait, run in value["jobs"]
            }
            return cls(value["cursor"], jobs, value["last_row_at"], value["trimmed"])
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise InvalidInput("metrics", wanted="totals of the ledger; use another --name", got=error) from error


def _seconds(since: int | None, until: int | None) -> float:
    return max(0, (until or 0) - (since or 0)) / SECOND


def _pack(histogram: Histogram) -> list[Any]:
    return [round(histogram.total, 6), *histogram.counts]


def _unpack(values: list[Any]) -> Histogram:
    total, *counts = values
    return Histogram(table.SECONDS, counts, total)


class LedgerMetrics:
    """Exports the endings of a store. A new ``name`` begins at the present end of the ledger."""

    def __init__(self, store: Store, metrics: InMemoryMetrics, *, name: str = DEFAULT_NAME) -> None:
        self._store = store
        self._metrics = metrics
        self._name = name

    def update(self) -> bool:
        """Count the rows since the last update, and export the totals; return whether there may be more rows."""
        totals, version = self._load()
        more = True
        for _ in range(MAX_PAGES):
            try:
                page = self._store.ledger(totals.cursor, limit=PAGE_ROWS)
            except LedgerTrimmed:
                totals.trimmed += 1
                totals.cursor = None  # the oldest row that is left
                continue
            totals.add(page)
            totals.cursor = page.cursor
            more = len(page) == PAGE_ROWS
            if not more:
                break
        change = Change(kind=KIND, key=self._name, value=totals.pack(), version=version)
        [written] = self._store.do(Write(changes=[change]))
        if written is None:  # another exporter of this name was faster
            totals, _ = self._load()
        self._export(totals)
        return more

    def _load(self) -> tuple[_Totals, int]:
        [entry] = self._store.do(Read(kind=KIND, keys=[self._name]))
        if entry is None or entry.value is None:
            return _Totals(self._store.do(LedgerEnd())), 0
        return _Totals.unpack(entry.value), entry.version

    def _export(self, totals: _Totals) -> None:
        jobs = totals.jobs.items()
        metrics = self._metrics
        metrics.replace(
            table.LEDGER_ENDINGS.name,
            {(*names, ending): number for names, one in jobs for ending, number in one.endings.items()},
        )
        metrics.replace(table.LEDGER_DEAD.name, {names: one.dead for names, one in jobs})
        metrics.replace(table.LEDGER_WAIT.name, {names: one.wait for names, one in jobs})
        metrics.replace(table.LEDGER_RUN.name, {names: one.run for names, one in jobs})
        metrics.replace(table.LEDGER_TRIMMED.name, {(): totals.trimmed})
        if totals.last_row_at:
            metrics.replace(table.LEDGER_READ.name, {(): totals.last_row_at / SECOND})
