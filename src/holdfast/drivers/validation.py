"""The checks at every driver's door: the same bounds and the same words, whatever the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self, cast, get_args

from holdfast.clock import DAY
from holdfast.drivers.contract import Capabilities, Feature, Registry
from holdfast.errors import CallerClockRefused, InvalidInput, Unsupported
from holdfast.model import bounds, ledger_reader
from holdfast.model.job import JobRecord, check_new
from holdfast.model.job_batch import JobBatch, representatives
from holdfast.model.lease import Lease
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Settlement
from holdfast.wire.codec import JSON

_SETTLEMENTS = frozenset(get_args(Settlement))


class Validation:
    """Mixed into a driver: its verbs call these first, so that nothing unchecked reaches the store."""

    capabilities: Capabilities
    caller_clock: bool

    def _read_clock(self) -> int:
        """The store's own clock."""
        raise NotImplementedError

    def close(self) -> None:
        """See ``Driver.close``."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def now(self, given: int | None) -> int:
        """The instant that judges this call (law L1)."""
        if given is None:
            return self._read_clock()
        if not self.caller_clock:
            raise CallerClockRefused
        return bounds.integer("now", given, most=bounds.MAX_INSTANT)

    def need(self, feature: Feature) -> None:
        """Refuse what this driver does not keep (law L14)."""
        reason = self.capabilities.gaps.get(feature)
        if reason is not None:
            raise Unsupported(self.capabilities.driver, feature, reason)

    def check_enqueue(self, jobs: Sequence[JobRecord]) -> None:
        """Every record acceptable, or none is stored."""
        bounds.batch("jobs", len(jobs))
        if isinstance(jobs, JobBatch):
            jobs.check()
        for job in representatives(jobs):
            check_new(job)
            if job.meta != {}:
                _check_meta(job.meta)
            if job.offset is not None:
                self.need(Feature.OFFSETS)

    def check_reserve(
        self,
        queues: Sequence[str],
        limit: int,
        lease_for: int,
        worker: str,
        types: Collection[str] | None,
    ) -> list[str]:
        """The queues, each once."""
        bounds.integer("limit", limit, least=1, most=bounds.MAX_BATCH)
        self.check_lease(lease_for, worker)
        if types is not None:
            self._names("type", types)
        return self._names("queue", queues)

    def check_lease(self, lease_for: int, worker: str) -> None:
        """A lease that ends, for somebody."""
        bounds.integer("lease_for", lease_for, least=1, most=bounds.MAX_LENGTH)
        bounds.text("worker", worker, empty=True)

    def check_extend(self, leases: Sequence[Lease], lease_for: int) -> None:
        """A bounded batch and a lease that ends."""
        bounds.batch("leases", len(leases))
        self._all("lease", leases, Lease)
        bounds.integer("lease_for", lease_for, least=1, most=bounds.MAX_LENGTH)

    def check_settle(self, settlements: Sequence[Settlement]) -> None:
        """A bounded batch of nothing but settlements."""
        bounds.batch("settlements", len(settlements))
        for settlement in settlements:
            if type(settlement) not in _SETTLEMENTS:
                raise InvalidInput("settlement", wanted="Ack, Retry, Fail or Release", got=settlement)
            if type(settlement.lease) is not Lease:
                raise InvalidInput("lease", wanted="a Lease", got=settlement.lease)
            started_at = settlement.started_at
            if started_at is not None and not (type(started_at) is int and 1 <= started_at <= bounds.MAX_INSTANT):
                bounds.integer("started_at", started_at, least=1, most=bounds.MAX_INSTANT)

    def check_reap(self, queues: Sequence[str] | None, worker: str | None, limit: int) -> list[str] | None:
        """The queues, each once; None is all of them."""
        bounds.integer("limit", limit, least=1, most=bounds.MAX_BATCH)
        if worker is not None:
            bounds.text("worker", worker)
        return None if queues is None else self._names("queue", queues)

    def check_wait(self, queues: Sequence[str], timeout: float) -> list[str]:
        """The queues, each once."""
        if not isinstance(timeout, int | float) or not 0 <= timeout <= 86_400:  # a day
            raise InvalidInput("timeout", wanted="seconds from 0 to 86400", got=timeout)
        return self._names("queue", queues)

    def check_ids(self, job_ids: Sequence[str]) -> None:
        """A bounded list of ids, not a single id by mistake."""
        self._not_text("job_ids", job_ids)
        bounds.batch("job_ids", len(job_ids))
        for job_id in job_ids:
            bounds.name("id", job_id)

    def check_settings(self, queue: str, settings: QueueSettings | None, type_: str | None) -> None:
        """Names that fit, and nothing this driver would have to ignore."""
        bounds.name("queue", queue)
        if type_ is not None:
            bounds.name("type", type_)
        if settings is not None and settings.on_exhausted is not OnExhausted.SKIP:
            self.need(Feature.HALT)

    def check_page(self, limit: int) -> None:
        """Every list has a limit."""
        bounds.integer("limit", limit, least=1, most=bounds.MAX_BATCH)

    def check_find(self, limit: int, after: str | None) -> None:
        """A bounded page, after an id."""
        self.check_page(limit)
        if after is not None:
            bounds.name("after", after)

    def check_any_open(self, queues: Sequence[str], types: Collection[str]) -> tuple[list[str], list[str]]:
        """The queues and the types, each once."""
        return self._names("queue", queues), self._names("type", types)

    def check_counts(self, queues: Sequence[str] | None) -> None:
        """The queues to count; None is all of them."""
        if queues is not None:
            self._names("queue", queues)

    def check_trim(self, ended_for: int, ledger_for: int, limit: int) -> None:
        """Ended rows answer repeated settlements for at least a day (law L6)."""
        bounds.integer("ended_for", ended_for, least=DAY, most=bounds.MAX_LENGTH)
        bounds.integer("ledger_for", ledger_for, least=1, most=bounds.MAX_LENGTH)
        bounds.integer("limit", limit, least=1, most=bounds.MAX_BATCH)

    def kept_for(self, ended_for: int, ledger_for: int, now: int | None) -> tuple[int, int]:
        """How long ended jobs and ledger rows are kept: as asked, or until every registered reader has read them (L13).

        Looked up before the transaction that removes: a reader that comes in between has begun at the oldest row left.
        """
        if not self.capabilities.has(Feature.REGISTRY):
            return ended_for, ledger_for
        registry = cast("Registry", self)
        read_until = ledger_reader.read_until(registry.scan(ledger_reader.KIND, limit=ledger_reader.MOST, now=now))
        if read_until is None:
            return ended_for, ledger_for
        unread_for = min(self.now(now) - read_until + 1, bounds.MAX_LENGTH)
        return max(ended_for, unread_for), max(ledger_for, unread_for)

    def check_read(self, kind: str, keys: Sequence[str]) -> None:
        """A kind and a bounded list of keys."""
        bounds.name("kind", kind)
        self._not_text("keys", keys)
        bounds.batch("keys", len(keys))
        for key in keys:
            bounds.text("key", key)

    def check_write(self, changes: Sequence[Change]) -> None:
        """A bounded batch; each change checked itself when it was made."""
        bounds.batch("changes", len(changes))
        self._all("change", changes, Change)

    def check_scan(self, kind: str, prefix: str, after: str, limit: int) -> None:
        """A kind and a bounded page of it."""
        bounds.name("kind", kind)
        bounds.text("prefix", prefix, empty=True)
        bounds.text("after", after, empty=True)
        self.check_page(limit)

    @staticmethod
    def _not_text(field: str, values: Sequence[str]) -> None:
        """A single text is a sequence too, and never what was meant."""
        if isinstance(values, str):
            raise InvalidInput(field, wanted="a list", got=values)

    @staticmethod
    def _all(field: str, values: Sequence[object], wanted: type) -> None:
        for value in values:
            if not isinstance(value, wanted):
                raise InvalidInput(field, wanted=f"a {wanted.__name__}", got=value)

    @staticmethod
    def _names(field: str, names: Collection[str]) -> list[str]:
        if isinstance(names, str) or not names:
            raise InvalidInput(f"{field}s", wanted=f"a list with at least one {field}", got=names)
        bounds.batch(f"{field}s", len(names))
        return list(dict.fromkeys(bounds.name(field, value) for value in names))


def _check_meta(meta: object) -> None:
    """A JSON object of a bounded size: what a driver stores, it must be able to read back."""
    data = JSON.encode(meta, field="meta") if isinstance(meta, dict) else b""
    if not data or JSON.decode(data, field="meta") != meta:
        raise InvalidInput("meta", wanted="a dict of plain JSON values", got=meta)
    bounds.blob("meta", data, most=bounds.MAX_META)


def ledger_position(cursor: str, written: int) -> int:
    """The number in a cursor. One from beyond the end is refused: its reader would miss what is written up to there."""
    if cursor.isascii() and cursor.isdecimal() and len(cursor) < 20 and int(cursor) <= written:
        return int(cursor)
    raise InvalidInput("after", wanted="a cursor that this ledger gave (no other store, no older copy)", got=cursor)
