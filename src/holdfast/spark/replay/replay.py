"""Enqueue selected jobs again: each once, at a limited rate, resumable.

Spark selects and sorts the jobs, which is the expensive part. The Spark driver enqueues them, in the order of the old
ids: so the rate applies to the whole replay, and its progress is one id, stored in the target's registry. Every new job
has a key that consists of the replay's id and the old job's id: a job that was enqueued just before a crash, and not
recorded in the progress, is not enqueued twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self, cast

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from uuid_utils import uuid7

from holdfast.artifacts.payloads import open_payloads
from holdfast.client import batches
from holdfast.clock import DAY, SystemClock
from holdfast.connect import is_store
from holdfast.drivers.contract import Store
from holdfast.drivers.optional import NamedSpace
from holdfast.errors import PayloadError, PayloadUnavailable, ReplayConflict
from holdfast.model import bounds
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS, JobRecord
from holdfast.model.registry import Change
from holdfast.model.request import META_PAYLOAD_REF
from holdfast.settings import Settings
from holdfast.settings import read as read_settings
from holdfast.signing import open_signer
from holdfast.spark.history.reader import History
from holdfast.spark.replay.selection import (
    COPIED_COLUMNS,
    SIGNED_COLUMNS,
    Preview,
    jobs_of_history,
    jobs_of_store,
    preview,
    select,
)
from holdfast.spark.session import register_format, session
from holdfast.throttle import Throttle
from holdfast.wire.codec import JSON
from holdfast.wire.signing import Verdict

KIND = "replay"  # registry kind, by replay id: a ReplayProgress
PROGRESS_TTL = 366 * DAY  # a finished replay is not repeated within this time
BATCH_JOBS = 5_000  # jobs of one enqueue and one write of the progress
PORTION_JOBS = 100_000  # sorted jobs that this process holds at a time


class ReplayProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a replay, over all calls of ``run``."""

    after: str = ""  # the last old id that was enqueued again
    added: int = 0
    existed: int = 0
    refused: int = 0
    finished_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay has done, over all calls of ``run``."""

    replay_id: str
    added: int
    existed: int  # enqueued by an earlier call that could not record it
    without_payload: int  # selected, and left out
    refused: int  # selected, and left out: the signature is not valid, or a large payload cannot be read
    finished_at: int
    before: bool = False  # whether an earlier call had finished it, so that this one did nothing


def replay(
    source: str,
    where: str,
    *,
    to: Store,
    space: str = "main",
    queue: str | None = None,
    rate: float | None = None,
    replay_id: str | None = None,
    spark: SparkSession | None = None,
    on_progress: Callable[[int], None] | None = None,
    settings: Settings | None = None,
) -> ReplayResult:
    """Enqueue ended jobs of a history (a folder) or of a store (its URL) again, each once, into the store ``to``.

    ``where`` is a condition in SQL over the columns of ``jobs``; ``rate`` is in jobs per second. A call with the same
    ``replay_id`` continues where the last one ended, and does nothing once the replay is finished. The default id is a
    hash of source, condition, space and queue. A new id enqueues all jobs once more.

    If the settings turn signing on, new jobs are signed, and jobs of a store are verified before: a job whose signature
    is not valid is left out. A history keeps no signatures: all its selected jobs are signed.
    """
    with Replay(
        source, where, to=to, space=space, queue=queue, replay_id=replay_id, spark=spark, settings=settings
    ) as prepared:
        return prepared.run(rate=rate, on_progress=on_progress)


class Replay:
    """A replay whose jobs are selected. Spark caches the selection until the ``with`` block ends."""

    def __init__(
        self,
        source: str,
        where: str,
        *,
        to: Store,
        space: str = "main",
        queue: str | None = None,
        replay_id: str | None = None,
        spark: SparkSession | None = None,
        settings: Settings | None = None,
    ) -> None:
        settings = settings or read_settings()
        target_space = to.space_name if isinstance(to, NamedSpace) else settings.space
        self._signer = open_signer(settings, space=target_space)
        self._verifier = open_signer(settings, space=space)
        self._old_payloads = open_payloads(settings, space=space)
        self._new_payloads = open_payloads(settings, space=target_space)
        self.id = bounds.check_name("replay_id", replay_id or _id_of(source, where, space, queue))
        self._store = to
        self._queue = None if queue is None else bounds.check_name("queue", queue)
        self._key_prefix = f"replay:{self.id}:"
        jobs = _read_jobs(session() if spark is None else register_format(spark), source, space)
        self._selected = select(jobs, where, own_keys=self._key_prefix).persist()
        self._has_signatures = set(SIGNED_COLUMNS) <= set(self._selected.columns)
        self.preview: Preview = preview(self._selected)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selected.unpersist()

    @property
    def progress(self) -> ReplayProgress:
        """The progress that is stored now."""
        return self._read_progress()[0]

    def run(self, *, rate: float | None = None, on_progress: Callable[[int], None] | None = None) -> ReplayResult:
        """Enqueue the remaining jobs. Raises ``ReplayConflict`` if another process runs the same replay."""
        progress, version = self._read_progress()
        if progress.finished_at is not None:
            return self._result(progress, before=True)
        throttle = Throttle(rate)
        rows = self._remaining_rows(progress.after)
        while batch := list(islice(rows, throttle.batch_size(BATCH_JOBS))):
            throttle.wait(len(batch))
            progress, version = self._write_progress(self._enqueue(batch, progress), version)
            if on_progress is not None:
                on_progress(progress.added + progress.existed)
        finished = msgspec.structs.replace(progress, finished_at=SystemClock().now())
        self._write_progress(finished, version)
        return self._result(finished)

    def _remaining_rows(self, after: str) -> Iterator[Row]:
        """Return the jobs after an id, in order. This process holds one portion of them at a time."""
        rows = self._selected.where("payload IS NOT NULL").where(self._selected["job_id"] > after)
        rows = rows.select(*COPIED_COLUMNS, *(SIGNED_COLUMNS if self._has_signatures else ()))
        portions = -(-self.preview.chosen // PORTION_JOBS)
        if portions > 1:
            rows = rows.repartitionByRange(portions, "job_id").sortWithinPartitions("job_id")
        else:
            rows = rows.orderBy("job_id")
        return rows.toLocalIterator()

    def _enqueue(self, rows: list[Row], progress: ReplayProgress) -> ReplayProgress:
        now = SystemClock().now()
        new_jobs = [self._new_job(row, now) for row in rows if self._is_genuine(row)]
        records: Sequence[JobRecord] = [job for job in new_jobs if job is not None]
        refused = len(rows) - len(records)
        if self._signer is not None:
            records = self._signer.sign(records)
        added = sum(not answer.existed for batch in batches(records) for answer in self._store.enqueue(batch))
        return ReplayProgress(
            after=rows[-1]["job_id"],
            added=progress.added + added,
            existed=progress.existed + len(records) - added,
            refused=progress.refused + refused,
        )

    def _is_genuine(self, row: Row) -> bool:
        """Whether the old job is as it was signed, or needs no signature."""
        if self._verifier is None or not self._has_signatures:
            return True
        verdict = self._verifier.verify(_signed_job(row))
        return verdict is Verdict.VALID or (verdict is Verdict.UNSIGNED and not self._verifier.required)

    def _new_job(self, row: Row, now: int) -> JobRecord | None:
        """Return the new job; None if its payload is stored apart from the old job, and cannot be read."""
        job_id, payload, meta = str(uuid7()), bytes(row["payload"]), _meta(row)
        if META_PAYLOAD_REF in meta:
            if self._old_payloads is None or self._new_payloads is None:
                return None
            try:
                data = self._old_payloads.load(row["job_id"], payload)
            except (PayloadError, PayloadUnavailable):
                return None
            payload = self._new_payloads.save(self._store, job_id, data, now=now)
        return JobRecord(
            id=job_id,
            type=row["type"],
            queue=self._queue or row["queue"],
            payload=payload,
            priority=row["priority"] or 0,
            timeout=row["timeout"],
            created_at=now,
            max_attempts=row["max_attempts"] or DEFAULT_MAX_ATTEMPTS,
            max_crashes=row["max_crashes"],
            idempotency_key=_key(self._key_prefix, row["job_id"]),
            domain=row["domain"],
            limit_key=row["limit_key"],
            name=row["name"],
            meta=meta,
            webhook=row["webhook"],
        )

    def _result(self, progress: ReplayProgress, *, before: bool = False) -> ReplayResult:
        assert progress.finished_at is not None
        return ReplayResult(
            replay_id=self.id,
            added=progress.added,
            existed=progress.existed,
            without_payload=self.preview.without_payload,
            refused=progress.refused,
            finished_at=progress.finished_at,
            before=before,
        )

    def _read_progress(self) -> tuple[ReplayProgress, int]:
        [entry] = self._store.read(KIND, [self.id])
        if entry is None or entry.value is None:
            return ReplayProgress(), 0
        return msgspec.json.decode(entry.value, type=ReplayProgress), entry.version

    def _write_progress(self, progress: ReplayProgress, version: int) -> tuple[ReplayProgress, int]:
        """Compare and set: of two processes that run the same replay, the slower one raises ``ReplayConflict``."""
        value = msgspec.json.encode(progress)
        [entry] = self._store.write([Change(kind=KIND, key=self.id, value=value, version=version, ttl=PROGRESS_TTL)])
        if entry is None:
            raise ReplayConflict(self.id)
        return progress, entry.version


def _signed_job(row: Row) -> JobRecord:
    """Return the fields of the old job that its signature covers."""
    return JobRecord(
        id=row["job_id"],
        type=row["type"],
        queue=row["queue"],
        payload=bytes(row["payload"]),
        priority=row["priority"],
        timeout=row["timeout"],
        created_at=row["created_micros"],
        max_attempts=row["max_attempts"],
        idempotency_key=row["idempotency_key"],
        domain=row["domain"],
        limit_key=row["limit_key"],
        offset=row["offset"],
        name=row["name"],
        meta=_meta(row),
        webhook=row["webhook"],
        signature=row["signature"],
        requested_run_at=row["requested_micros"],
    )


def _meta(row: Row) -> dict[str, object]:
    return cast("dict[str, object]", JSON.decode(row["meta"].encode(), field="meta")) if row["meta"] else {}


def _read_jobs(spark: SparkSession, source: str, space: str) -> DataFrame:
    if is_store(source):
        reader = spark.read.format("holdfast").options(url=source, space=space, state="done,dead,cancelled")
        return jobs_of_store(reader.load("jobs"))
    history = History(spark, source)
    return jobs_of_history(history.jobs, history.payloads)


def _id_of(source: str, where: str, space: str, queue: str | None) -> str:
    content = msgspec.json.encode([source, where, space, queue])
    return f"r-{hashlib.blake2b(content, digest_size=6).hexdigest()}"


def _key(prefix: str, job_id: str) -> str:
    """Return the key of the new job. Two names of maximal length are too long for a key: then the old id is hashed."""
    key = f"{prefix}{job_id}"
    if len(key) <= bounds.MAX_TEXT_BYTES:
        return key
    return f"{prefix}{hashlib.blake2b(job_id.encode(), digest_size=32).hexdigest()}"
