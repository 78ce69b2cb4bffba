"""The sink: rows of a frame, or of a stream, become jobs.

``DataSource.writer`` and ``streamWriter`` run on the Spark driver, once for each save and each micro-batch; the writers
that they give are pickled, and ``write`` runs in a Python worker once for each try of each partition. Jobs are stored
as they come, so a write that fails has stored some: the same run again stores the rest, because every job has a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from holdfast.client import batches
from holdfast.clock import SystemClock
from holdfast.drivers.contract import Driver
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, check_new
from holdfast.model.lease import Enqueued
from holdfast.spark.datasource.bad_rows import Diverted
from holdfast.spark.datasource.options import FAIL, Sink
from holdfast.spark.datasource.row_to_job import Recorder
from holdfast.spark.execution.slot import store_of

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"  # what Spark tells the tasks of a micro-batch


@dataclass
class Written(WriterCommitMessage):
    """What one partition came to."""

    added: int = 0
    existed: int = 0
    diverted: int = 0


class Writer(DataSourceArrowWriter):
    """Of one save. The run was chosen on the Spark driver: every try of every Spark task has the same."""

    def __init__(self, asked: Sink, names: Sequence[str], run: str) -> None:
        self._asked = asked
        self._names = tuple(names)
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the jobs of one partition."""
        return write(iterator, self._asked, self._names, self._run)


class StreamWriter(DataSourceStreamArrowWriter):
    """Of a stream. The run is the query and its micro-batch, both of which outlive a restart."""

    def __init__(self, asked: Sink, names: Sequence[str]) -> None:
        self._asked = asked
        self._names = tuple(names)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Store the jobs of one partition of one micro-batch."""
        context = _task()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        assert query is not None
        assert batch is not None
        return write(iterator, self._asked, self._names, f"{self._asked.run or query}/{batch}")


def write(rows: Iterable[pa.RecordBatch], asked: Sink, names: Sequence[str], run: str) -> Written:
    """Store the jobs of one partition; bad rows raise ``InvalidInput``, or go to their table."""
    partition = _task().partitionId()
    store = store_of(asked.place.url, asked.place.space)
    recorder = Recorder(asked, names, run=run, partition=partition)
    if asked.bad_rows == FAIL:
        return _write(rows, store, recorder, None, partition)
    with Diverted(asked.bad_rows, run, partition) as diverted:
        return _write(rows, store, recorder, diverted, partition)


def _write(
    rows: Iterable[pa.RecordBatch], store: Driver, recorder: Recorder, diverted: Diverted | None, partition: int
) -> Written:
    clock = SystemClock()
    written = Written()
    for batch in rows:
        places, jobs, bad = _records(recorder, batch, clock.now())
        _store(store, places, jobs, bad, written, stop=diverted is None)
        if bad:
            if diverted is None:
                place, error = min(bad.items())
                raise InvalidInput(
                    f"row {place} of a batch in partition {partition}: {error.field}",
                    wanted=error.wanted,
                    got=error.got,
                )
            order = sorted(bad)
            diverted.add(batch.take(pa.array(order)), [str(bad[place]) for place in order])
            written.diverted = diverted.count
    return written


Places = Sequence[int]  # of rows in their batch
Bad = dict[int, InvalidInput]  # by place


def _records(recorder: Recorder, batch: pa.RecordBatch, now: int) -> tuple[Places, Sequence[JobRecord], Bad]:
    try:
        return range(batch.num_rows), recorder.records(batch, now=now), {}
    except InvalidInput:
        pass  # one of them, or more: find out which
    jobs: dict[int, JobRecord] = {}
    bad: Bad = {}
    for place in range(batch.num_rows):
        try:
            [jobs[place]] = recorder.records(batch.slice(place, 1), now=now)
        except InvalidInput as error:
            bad[place] = error
    return list(jobs), list(jobs.values()), bad


def _store(store: Driver, places: Places, jobs: Sequence[JobRecord], bad: Bad, written: Written, *, stop: bool) -> None:
    """Enqueue them. What the driver refuses, and keys that are known with another payload, become bad rows."""
    if bad and stop:
        return  # nothing of a batch with a bad row
    start = 0
    for whole in batches(jobs):
        piece, of_piece = whole, places[start : start + len(whole)]
        start += len(whole)
        try:
            answers = store.enqueue(piece)
        except InvalidInput:
            refused = {
                place: error for place, job in zip(of_piece, piece, strict=True) if (error := _refused(job)) is not None
            }
            if not refused:
                raise
            bad.update(refused)
            if stop:
                return
            left = [(place, job) for place, job in zip(of_piece, piece, strict=True) if place not in refused]
            of_piece, piece = [place for place, _ in left], [job for _, job in left]
            answers = store.enqueue(piece)
        for place, job, answer in zip(of_piece, piece, answers, strict=True) if _are_some_known(answers) else ():
            if answer.conflict:
                wanted, got = "one payload for a key", f"another payload for {job.idempotency_key!r}"
                bad[place] = InvalidInput("key", wanted=wanted, got=got)
            written.existed += answer.existed
        written.added += sum(not answer.existed for answer in answers)


def _are_some_known(answers: Sequence[Enqueued]) -> bool:
    """Mostly none: then no record need be made of what went in as columns."""
    return any(answer.existed for answer in answers)


def _refused(job: JobRecord) -> InvalidInput | None:
    try:
        check_new(job)
    except InvalidInput as error:
        return error
    return None


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
