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
from holdfast.spark.divert import Diverted
from holdfast.spark.options import FAIL, Sink
from holdfast.spark.records import Recorder
from holdfast.spark.slot import store_of

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
        jobs, bad = _records(recorder, batch, clock.now())
        _store(store, jobs, bad, written, stop=diverted is None)
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


Jobs = dict[int, JobRecord]  # by the place of the row in its batch
Bad = dict[int, InvalidInput]


def _records(recorder: Recorder, batch: pa.RecordBatch, now: int) -> tuple[Jobs, Bad]:
    try:
        return dict(enumerate(recorder.records(batch, now=now))), {}
    except InvalidInput:
        pass  # one of them, or more: find out which
    jobs: Jobs = {}
    bad: Bad = {}
    for place in range(batch.num_rows):
        try:
            [jobs[place]] = recorder.records(batch.slice(place, 1), now=now)
        except InvalidInput as error:
            bad[place] = error
    return jobs, bad


def _store(store: Driver, jobs: Jobs, bad: Bad, written: Written, *, stop: bool) -> None:
    """Enqueue them. What the driver refuses, and keys that are known with another payload, become bad rows."""
    if bad and stop:
        return  # nothing of a batch with a bad row
    places = list(jobs)
    start = 0
    for piece in batches(list(jobs.values())):
        of_piece = places[start : start + len(piece)]
        start += len(piece)
        try:
            answers = store.enqueue(piece)
        except InvalidInput:
            refused = {place: error for place in of_piece if (error := _refused(jobs[place])) is not None}
            if not refused:
                raise
            bad.update(refused)
            if stop:
                return
            of_piece = [place for place in of_piece if place not in refused]
            answers = store.enqueue([jobs[place] for place in of_piece])
        for place, answer in zip(of_piece, answers, strict=True):
            if answer.conflict:
                key = jobs[place].idempotency_key
                bad[place] = InvalidInput("key", wanted="one payload for a key", got=f"another payload for {key!r}")
            written.existed += answer.existed
        written.added += sum(not answer.existed for answer in answers)


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
