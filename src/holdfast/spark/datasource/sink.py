"""The sink: rows of a DataFrame, or of a stream, become jobs.

``DataSource.writer`` and ``streamWriter`` run on the Spark driver, once for each save or each stream. Their writers are
pickled, and ``write`` runs on executors, once for each try of each Spark task. Jobs are stored as they arrive, so a
write that fails has stored some of them. A repeated run stores the others, because every job has a key, or an offset in
its domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from holdfast.client import batches
from holdfast.clock import SystemClock
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, check_new
from holdfast.spark.datasource.bad_rows import BadRowsFile
from holdfast.spark.datasource.key_conflicts import job_conflict
from holdfast.spark.datasource.options import FAIL, SinkOptions
from holdfast.spark.datasource.row_keys import check_distinct
from holdfast.spark.datasource.row_to_job import RowConverter
from holdfast.spark.datasource.short_errors import short_errors
from holdfast.spark.store_access import open_store, signer_of
from holdfast.wire.signing import Signer

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # properties of the tasks of a micro-batch


@dataclass
class PartitionCounts(WriterCommitMessage):
    """How many rows of one partition were added, existed already, or were bad."""

    added: int = 0
    existed: int = 0  # including those of ``past``
    past: int = 0  # rows whose offset has ended in its domain
    bad: int = 0
    digests: bytes = b""  # of the rows of a run that can be repeated, if their content is their key


class JobWriter(DataSourceArrowWriter):
    """The writer of one save. The Spark driver has chosen the run: all tries of all Spark tasks share it."""

    def __init__(self, options: SinkOptions, names: Sequence[str], run: str) -> None:
        self._options = options
        self._names = tuple(names)
        self._run = run

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionCounts:
        """Store the jobs of one partition."""
        return write(iterator, self._options, self._names, self._run, repeatable=self._options.run is not None)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Refuse equal rows of different partitions, if they have no key and the run can be repeated."""
        _check_distinct(messages)


class JobStreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. The run is the query and its micro-batch: both are the same after a restart."""

    def __init__(self, options: SinkOptions, names: Sequence[str]) -> None:
        self._options = options
        self._names = tuple(names)

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionCounts:
        """Store the jobs of one partition of one micro-batch."""
        context = _task_context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query is not None
        assert batch is not None
        return write(iterator, self._options, self._names, f"{self._options.run or query}/{batch}", repeatable=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's signature
        """Refuse equal rows of different partitions, if they have no key. Spark then ends the query."""
        _check_distinct(messages)


def write(
    rows: Iterable[pa.RecordBatch], options: SinkOptions, names: Sequence[str], run: str, *, repeatable: bool
) -> PartitionCounts:
    """Store the jobs of one partition. A bad row raises ``InvalidInput``, or goes to the table of bad rows.

    A ``repeatable`` run may be repeated with other partitions.
    """
    partition = _task_context().partitionId()
    store = open_store(options.store.url, options.store.space)
    signer = signer_of(options.store.space, options.signing)
    converter = RowConverter(options, names, run=run, partition=None if repeatable else partition)
    if options.bad_rows == FAIL:
        return _write(rows, store, converter, None, partition, signer=signer)
    with BadRowsFile(options.bad_rows, run, partition) as bad_rows:
        return _write(rows, store, converter, bad_rows, partition, signer=signer)


def _write(
    rows: Iterable[pa.RecordBatch],
    store: Store,
    converter: RowConverter,
    bad_rows: BadRowsFile | None,
    partition: int,
    *,
    signer: Signer | None,
) -> PartitionCounts:
    clock = SystemClock()
    counts = PartitionCounts()
    for batch in rows:
        positions, jobs, errors = _convert(converter, batch, clock.now())
        converter.content_keys.refuse_equal_rows()
        signed = jobs if signer is None or (errors and bad_rows is None) else signer.sign(jobs)
        _store(store, positions, signed, errors, counts, stop_at_error=bad_rows is None)
        if errors:
            if bad_rows is None:
                position, error = min(errors.items())
                raise InvalidInput(
                    f"row {position} of a batch in partition {partition}: {error.field}",
                    wanted=error.wanted,
                    got=error.got,
                )
            order = sorted(errors)
            bad_rows.add(batch.take(pa.array(order)), [str(errors[position]) for position in order])
            counts.bad = bad_rows.count
    counts.digests = converter.content_keys.digests()
    return counts


Positions = Sequence[int]  # of rows in their batch
Errors = dict[int, InvalidInput]  # by position


def _convert(converter: RowConverter, batch: pa.RecordBatch, now: int) -> tuple[Positions, Sequence[JobRecord], Errors]:
    try:
        return range(batch.num_rows), converter.convert(batch, now=now), {}
    except InvalidInput:
        pass  # at least one row is bad: convert row by row to find out which
    jobs: dict[int, JobRecord] = {}
    errors: Errors = {}
    for position in range(batch.num_rows):
        try:
            [jobs[position]] = converter.convert(batch.slice(position, 1), now=now)
        except InvalidInput as error:
            errors[position] = error
    return list(jobs), list(jobs.values()), errors


def _store(
    store: Store,
    positions: Positions,
    jobs: Sequence[JobRecord],
    errors: Errors,
    counts: PartitionCounts,
    *,
    stop_at_error: bool,
) -> None:
    """Enqueue the jobs.

    A job that the driver refuses, and a key or an offset that exists with another payload, are added to ``errors``.
    """
    if errors and stop_at_error:
        return  # store nothing of a batch that has a bad row
    start = 0
    for batch in batches(jobs):
        part, part_positions = batch, positions[start : start + len(batch)]
        start += len(batch)
        try:
            answers = store.enqueue(part)
        except InvalidInput:
            refusals = {
                position: error
                for position, job in zip(part_positions, part, strict=True)
                if (error := _refusal(job)) is not None
            }
            if not refusals:
                raise
            errors.update(refusals)
            if stop_at_error:
                return
            accepted = [
                (position, job) for position, job in zip(part_positions, part, strict=True) if position not in refusals
            ]
            part_positions, part = [position for position, _ in accepted], [job for _, job in accepted]
            answers = store.enqueue(part)
        if any(answer.existed for answer in answers):  # else a ``JobBatch`` need not build a record for each row
            for position, job, answer in zip(part_positions, part, answers, strict=True):
                if answer.conflict:
                    errors[position] = job_conflict(store, answer.id, job)
                counts.existed += answer.existed
                counts.past += answer.past
        counts.added += sum(not answer.existed for answer in answers)


def _refusal(job: JobRecord) -> InvalidInput | None:
    try:
        check_new(job)
    except InvalidInput as error:
        return error
    return None


def _check_distinct(messages: Iterable[WriterCommitMessage | None]) -> None:
    check_distinct(message.digests for message in messages if isinstance(message, PartitionCounts))


def _task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
