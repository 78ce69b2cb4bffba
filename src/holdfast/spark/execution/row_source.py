"""Rows of a DataFrame as a source of jobs. Runs on executors, in the Spark tasks of ``run``.

A slot stores the next rows as jobs when its worker requests jobs. Rows with very short handlers are stored and leased
in one call, which saves the reserve. Slower rows are stored ahead of the work without a lease, so that all slots share
them, and so are ordered rows: of each domain, only the first can be leased.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import msgspec
import pyarrow as pa
from msgspec.structs import replace
from uuid_utils import uuid7

from holdfast.clock import SystemClock
from holdfast.drivers.requests import Enqueue, LeaseTerms
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, StoreError
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Reservation
from holdfast.spark.datasource.key_conflicts import key_conflict, stored_conflict
from holdfast.spark.execution.row_payloads import RowPayloads
from holdfast.spark.execution.run_columns import InputColumns
from holdfast.spark.execution.run_spec import RunSpec, send_stop
from holdfast.spark.execution.slot import Slot, slot_names
from holdfast.spark.store_access import open_store, signer_of
from holdfast.wire.signing import Signer
from holdfast.worker import bad_rows
from holdfast.worker.interpreter import tuned_interpreter
from holdfast.worker.job_source import Demand, StoreJobSource

REPORT_DDL = "field string, wanted string, got string, id string"  # a refused row, or one of the sampled ids
SAMPLE_INTERVAL_JOBS = 1000  # one id of this many is reported, to split the read of the outcomes
SHORT_BATCH_JOBS = 5000  # stored with leases: jobs of less than about 0.2 ms, so about a second of work at most
AHEAD_BATCH_JOBS = 1000  # stored without leases: longer jobs
AHEAD_GROWTH = 4  # of the first batches without leases: the first jobs take longer than the others, which may be short
MAX_BATCH_BYTES = 16 << 20  # of the rows in one batch, unless one alone has more


def run_rows(
    batches: Iterator[pa.RecordBatch],
    spec: RunSpec,
    template: JobRecord,
    columns: InputColumns,
    earlier: EarlierCalls | None,
) -> Iterator[pa.RecordBatch]:
    """Body of the Spark task of ``run``: run rows of (key, column, ...), and return one batch of ``REPORT_DDL``."""
    number, names = slot_names(spec)
    store = open_store(spec.url, spec.space)
    source = RowSource(
        store,
        RowJobs(batches, template, columns),
        run=spec.run,
        queues=spec.options.queues or (template.queue,),
        types=spec.catalogue.types,
        lease_for=spec.options.lease_for,
        worker=names[-1],
        signer=signer_of(spec.space, spec.signing),
        earlier=earlier,
    )
    with Slot(spec, number, names, store, source=source) as slot, tuned_interpreter():
        yield from slot.outcomes()
    yield source.report()


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """What a call of a named run does about rows that earlier calls have stored.

    A job that died after the call began is not retried by it: Spark may run a Spark task, and store its rows, twice.
    """

    began_at: int  # instant of the store, at which this call began
    retry_dead: bool = False


class RowJobs:
    """The rows of one Spark task as jobs, in batches of any size.

    A batch of rows has the key first, then the input columns; if the rows are ordered, then their domain.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], template: JobRecord, columns: InputColumns) -> None:
        self.is_ordered = bool(columns.domain)
        self._batches = batches
        self._payloads = RowPayloads(columns)
        self._batch: pa.RecordBatch | None = None
        self._template = template
        self._clock = SystemClock()

    def next(self, count: int) -> Sequence[JobRecord] | None:
        """Return jobs for the next rows, at most ``count``; None after the last row.

        A row that cannot be a payload becomes a job that is dead as soon as it runs: see ``bad_rows``.
        """
        while self._batch is None or not self._batch.num_rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return None
        count = _fitting(self._batch, count)
        part, self._batch = self._batch.slice(0, count), self._batch.slice(count)
        template = replace(self._template, created_at=self._clock.now())
        *names, domain = part.schema.names if self.is_ordered else (*part.schema.names, None)
        payloads, bad = self._payloads.encode(part.select(names))
        keys = part.column(0).to_pylist()
        if domain is None and not bad:
            rows = dict.fromkeys(zip(keys, payloads, strict=True))  # equal rows are one job
            keys, texts = zip(*rows, strict=True)
            return JobBatch(template, [str(uuid7()) for _ in keys], texts, keys)
        types = [bad_rows.TYPE if place in bad else template.type for place in range(part.num_rows)]
        domains = repeat(None, part.num_rows) if domain is None else _texts(part.column(domain))
        return [
            replace(template, id=str(uuid7()), type=type_, idempotency_key=key, payload=payload, domain=domain)
            for key, payload, type_, domain in dict.fromkeys(zip(keys, payloads, types, domains, strict=True))
        ]

    def shown_key(self, job: JobRecord) -> str:
        """Return the names and values of the key columns of the row with this job."""
        if job.type == bad_rows.TYPE:
            return msgspec.json.decode(job.payload, type=bad_rows.BadRow).row
        return self._payloads.shown_key(job.payload)


def _texts(column: pa.Array) -> list[str]:
    """Return a column of texts. Bytes that are not UTF-8 are escaped: Spark does not check its strings."""
    values: list[bytes] = column.cast(pa.binary()).to_pylist()
    return [value.decode("utf-8", "backslashreplace") for value in values]


def _fitting(batch: pa.RecordBatch, count: int) -> int:
    """Return how many of the first ``count`` rows make one batch. The size of a row in Arrow is about that in JSON."""
    while count > 1 and batch.slice(0, count).nbytes > MAX_BATCH_BYTES:
        count //= 2
    return count


class RowSource:
    """A ``JobSource`` that stores the rows of one Spark task as jobs, and leases jobs of the same queue."""

    def __init__(
        self,
        store: Store,
        rows: RowJobs,
        *,
        run: str,
        queues: Sequence[str],
        types: Collection[str],
        lease_for: int,
        worker: str,
        signer: Signer | None = None,
        earlier: EarlierCalls | None = None,
    ) -> None:
        self._store = store
        self._signer = signer
        self._earlier = earlier
        self._stored_jobs = StoreJobSource(store, queues, types, lease_for=lease_for, worker=worker)
        self._rows = rows
        self._run = run
        self._lease_for = lease_for
        self._worker = worker
        self._has_rows = True
        self._unstored: Sequence[JobRecord] | None = None  # the batch to store next, until the store has accepted it
        self._speed_is_known = False  # before the first call no job has run, so ``short_jobs`` means nothing
        self._ahead_batch = AHEAD_BATCH_JOBS if rows.is_ordered else AHEAD_GROWTH
        self._sampled_ids: list[str] = []
        self._refused: InvalidInput | None = None  # a row that ends the run

    def reserve(self, demand: Demand) -> list[Reservation]:
        """Return jobs that are leased to this worker; jobs of new rows are stored first.

        Jobs in the store go before new rows: retries, and jobs that were stored ahead.
        """
        if self._refused is not None:
            return []
        store_ahead = self._rows.is_ordered or (self._speed_is_known and not demand.short_jobs)
        if self._has_rows and store_ahead:
            self._store_rows(self._ahead_batch, leased=False)
            self._ahead_batch = min(AHEAD_GROWTH * self._ahead_batch, AHEAD_BATCH_JOBS)
        reservations = self._stored_jobs.reserve(demand)
        runs_alone = any(reservation.isolated for reservation in reservations)
        if self._has_rows and not store_ahead and not runs_alone and len(reservations) < demand.limit:
            try:
                count = SHORT_BATCH_JOBS if demand.short_jobs else demand.limit
                reservations += self._store_rows(count, leased=True)
            except StoreError:
                if not reservations:  # else this worker holds their leases, and the next call stores the rows
                    raise
        self._speed_is_known = True
        return reservations

    def wait(self, timeout: float) -> None:
        """Wait until a stored job may be due, at most ``timeout`` seconds; not at all while there are rows to store."""
        if not self._has_rows:
            self._stored_jobs.wait(timeout)

    def is_drained(self) -> bool:
        """Whether all rows are stored and no job of them is open."""
        return not self._has_rows and self._stored_jobs.is_drained()

    def report(self) -> pa.RecordBatch:
        """Return the rows of ``REPORT_DDL``: the first refused row, and a sample of the ids."""
        refused = [] if self._refused is None else [self._refused]
        ids = sorted(set(self._sampled_ids))
        columns = {
            name: [getattr(error, name) for error in refused] + [None] * len(ids) for name in ("field", "wanted", "got")
        }
        columns["id"] = [None] * len(refused) + ids
        return pa.RecordBatch.from_pydict({name: pa.array(values, pa.string()) for name, values in columns.items()})

    def _store_rows(self, count: int, *, leased: bool) -> list[Reservation]:
        """Store the next rows, and return their leases if ``leased``."""
        jobs = self._unstored = self._unstored or self._rows.next(count)
        if jobs is None:
            self._has_rows = False
            return []
        answers, reservations = self._enqueue(jobs, leased=leased)
        if any(answer.conflict for answer in answers):
            job, answer = next(pair for pair in zip(jobs, answers, strict=True) if pair[1].conflict)
            self._refuse(self._conflict(answer.id, job.payload, self._rows.shown_key(job)))
        ids = sorted(answer.id for answer in answers)
        self._sampled_ids += [*ids[::SAMPLE_INTERVAL_JOBS], ids[-1]]
        self._unstored = None
        return reservations

    def _conflict(self, job_id: str, payload: bytes, key: str) -> InvalidInput:
        job, earlier = self._store.get(job_id), self._earlier
        if earlier is None or (job is not None and job.created_at >= earlier.began_at):
            return key_conflict(job, payload, key)
        return stored_conflict(job, payload, key, is_retried=earlier.retry_dead)

    def _refuse(self, error: InvalidInput) -> None:
        """End the run: the Spark driver raises this error."""
        send_stop(self._store, self._run)
        self._refused, self._has_rows = error, False

    def _enqueue(self, batch: Sequence[JobRecord], *, leased: bool) -> tuple[list[Enqueued], list[Reservation]]:
        jobs = batch if self._signer is None else self._signer.sign(batch)
        if self._earlier is not None and self._earlier.retry_dead:
            stored = self._store.do(Enqueue(jobs=jobs, replace_dead_before=self._earlier.began_at))
        else:
            terms = LeaseTerms(lease_for=self._lease_for, worker=self._worker) if leased else None
            stored = self._store.do(Enqueue(jobs=jobs, lease=terms))
        return stored.answers, stored.reservations
