"""The order of domains, offsets, halts and gaps (L11), computed from the calls and the ledger only."""

from __future__ import annotations

from itertools import count

from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.queue_settings import Gaps, OnExhausted, QueueSettings

Place = tuple[str, str]  # a queue, and a domain in it


class DomainRules:
    """What must be true of the domains of a store."""

    def __init__(self) -> None:
        self.settings: dict[str, QueueSettings] = {}  # by queue; none passes a gap
        self.halts: dict[Place, str] = {}  # the dead job
        self._open: dict[Place, set[str]] = {}
        self._arrivals: dict[str, int] = {}  # the number of the last arrival of each job
        self._offsets: dict[tuple[Place, int], str] = {}  # the only job that ever had the offset
        self._ended: dict[Place, set[int]] = {}
        self._records: dict[str, JobRecord] = {}
        self._next_arrival = count()

    def add(self, record: JobRecord) -> None:
        """A job was accepted."""
        place = _place(record)
        if place is not None:
            self._records[record.id] = record
            self._open.setdefault(place, set()).add(record.id)
            self._arrivals[record.id] = next(self._next_arrival)
            if record.offset is not None:
                self._offsets[place, record.offset] = record.id

    def known_job(self, record: JobRecord) -> str | None:
        """Return the id of the job that has, or had, the offset of a record; None if the offset was never accepted."""
        place = _place(record)
        return None if place is None or record.offset is None else self._offsets.get((place, record.offset))

    def reason_not_to_reserve(self, record: JobRecord, inflight: set[str]) -> str | None:
        """Return why a job should not have been reserved; None if it is the one of its domain that may run."""
        place = _place(record)
        if place is None:
            return None
        jobs = self._open[place]
        first = min(jobs, key=self._key)
        if first != record.id:
            return f"was reserved before {first}, the first of its domain"
        if not inflight.isdisjoint(jobs):
            return "was reserved while another job of its domain was in flight"
        if place in self.halts:
            return f"was reserved while its domain was halted by {self.halts[place]}"
        position = next(offset for offset in count() if offset not in self._ended.get(place, ()))
        if self._settings(place).gaps is Gaps.WAIT and record.offset is not None and record.offset > position:
            return f"was reserved while its domain waited for {position}"
        return None

    def apply_row(self, row: LedgerRow) -> None:
        """A job was ended, requeued or purged."""
        if row.domain is None:
            return
        place = row.queue, row.domain
        is_halting = self.halts.get(place) == row.job_id
        if row.ending is Ending.REQUEUED:
            self._open[place].add(row.job_id)
            if not is_halting:  # a job that halted its domain is retried at its old place
                self._arrivals[row.job_id] = next(self._next_arrival)
        elif row.state is not None and row.state.has_ended:
            self._close(place, row)
        if is_halting and row.ending in {Ending.REQUEUED, Ending.PURGED}:
            del self.halts[place]

    def _close(self, place: Place, row: LedgerRow) -> None:
        self._open[place].remove(row.job_id)
        if row.offset is not None:
            self._ended.setdefault(place, set()).add(row.offset)
        if row.state is State.DEAD and self._settings(place).on_exhausted is OnExhausted.HALT:
            self.halts[place] = row.job_id

    def _key(self, job_id: str) -> tuple[bool, int, int]:
        """Return the place of a job in the order of its domain."""
        offset = self._records[job_id].offset
        return offset is None, offset or 0, self._arrivals[job_id]

    def _settings(self, place: Place) -> QueueSettings:
        return self.settings.get(place[0], QueueSettings())


def _place(record: JobRecord) -> Place | None:
    return None if record.domain is None else (record.queue, record.domain)
