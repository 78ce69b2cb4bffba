"""Jobs that were chosen are enqueued again, once each, at a rate, from where the last try of it ended.

One process does it, the Spark driver's, in the order of the old jobs' ids: so a rate holds for the whole replay, and
how far it has come is one id, which a row in the target's registry keeps. Spark finds the jobs and sorts them, which is
the expensive part. Every new job has a key made of the replay's id and the old job's: what a try enqueued just before
it died, and could not note any more, is not enqueued again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self, cast

import msgspec
from pyspark.sql import DataFrame, Row, SparkSession
from uuid_utils import uuid7

from holdfast.client import batches
from holdfast.clock import DAY, SystemClock
from holdfast.connect import is_store
from holdfast.drivers.contract import Store
from holdfast.errors import ReplayConflict
from holdfast.model import bounds
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS, JobRecord
from holdfast.model.registry import Change
from holdfast.spark.history.sync import History
from holdfast.spark.replay.selection import TAKEN, Preview, of_history, of_store, preview, select
from holdfast.spark.session import registered, session
from holdfast.throttle import Throttle
from holdfast.wire.codec import JSON

KIND = "replay"  # registry: how far each has come
REMEMBERED = 366 * DAY  # that a replay has been done
PIECE = 5_000  # jobs of one call
SORTED = 100_000  # jobs of which this process holds one portion at a time


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay has come, in all tries of it."""

    after: str = ""  # the last of the old ids
    added: int = 0
    existed: int = 0
    finished_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay has done, in all tries of it."""

    replay_id: str
    added: int
    existed: int  # that an earlier try had enqueued already
    without_payload: int  # chosen, and left out
    finished_at: int
    before: bool = False  # it had been finished earlier, and nothing was done now


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
) -> Replayed:
    """Enqueue ended jobs of a history (a folder) or of a store (its URL) again, each once, into ``to``.

    ``where`` is a condition in SQL over the columns of ``jobs``; ``rate`` is jobs a second. The same replay run again
    goes on where it ended, and does nothing once it is finished. It is the same if ``replay_id`` is, which by default
    stands for source, condition and queue: another id makes another set of jobs.
    """
    with Replay(source, where, to=to, space=space, queue=queue, replay_id=replay_id, spark=spark) as planned:
        return planned.run(rate=rate, on_progress=on_progress)


class Replay:
    """A replay that has been planned: the jobs are chosen and kept by Spark until it is closed."""

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
    ) -> None:
        self.id = bounds.check_name("replay_id", replay_id or _id_of(source, where, space, queue))
        self._store = to
        self._queue = None if queue is None else bounds.check_name("queue", queue)
        self._keys = f"replay:{self.id}:"
        jobs = _jobs(session() if spark is None else registered(spark), source, space)
        self._chosen = select(jobs, where, not_of=self._keys).persist()
        self.preview: Preview = preview(self._chosen)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._chosen.unpersist()

    @property
    def standing(self) -> Standing:
        """How far it has come until now."""
        return self._read()[0]

    def run(self, *, rate: float | None = None, on_progress: Callable[[int], None] | None = None) -> Replayed:
        """Enqueue what is left. Raises ``ReplayConflict`` if somebody else does so at the same time."""
        standing, version = self._read()
        if standing.finished_at is not None:
            return self._replayed(standing, before=True)
        throttle = Throttle(rate)
        rows = self._left(standing.after)
        while piece := list(islice(rows, throttle.batch_size(PIECE))):
            throttle.wait(len(piece))
            standing, version = self._write(self._enqueued(piece, standing), version)
            if on_progress is not None:
                on_progress(standing.added + standing.existed)
        done = msgspec.structs.replace(standing, finished_at=SystemClock().now())
        self._write(done, version)
        return self._replayed(done)

    def _left(self, after: str) -> Iterator[Row]:
        """What has not been enqueued, in order; of very many jobs only a portion at a time is held here."""
        left = self._chosen.where("payload IS NOT NULL").where(self._chosen["job_id"] > after).select(*TAKEN)
        portions = -(-self.preview.chosen // SORTED)
        if portions > 1:
            left = left.repartitionByRange(portions, "job_id").sortWithinPartitions("job_id")
        else:
            left = left.orderBy("job_id")
        return left.toLocalIterator()

    def _enqueued(self, rows: list[Row], standing: Standing) -> Standing:
        now = SystemClock().now()
        records = [self._again(row, now) for row in rows]
        added = sum(not answer.existed for piece in batches(records) for answer in self._store.enqueue(piece))
        return Standing(
            after=rows[-1]["job_id"],
            added=standing.added + added,
            existed=standing.existed + len(rows) - added,
        )

    def _again(self, row: Row, now: int) -> JobRecord:
        return JobRecord(
            id=str(uuid7()),
            type=row["type"],
            queue=self._queue or row["queue"],
            payload=bytes(row["payload"]),
            priority=row["priority"] or 0,
            timeout=row["timeout"],
            created_at=now,
            max_attempts=row["max_attempts"] or DEFAULT_MAX_ATTEMPTS,
            max_crashes=row["max_crashes"],
            idempotency_key=_key(self._keys, row["job_id"]),
            domain=row["domain"],
            name=row["name"],
            meta=cast("dict[str, object]", JSON.decode(row["meta"].encode(), field="meta")) if row["meta"] else {},
            webhook=row["webhook"],
        )

    def _replayed(self, standing: Standing, *, before: bool = False) -> Replayed:
        assert standing.finished_at is not None
        return Replayed(
            replay_id=self.id,
            added=standing.added,
            existed=standing.existed,
            without_payload=self.preview.without_payload,
            finished_at=standing.finished_at,
            before=before,
        )

    # How far it has come ----------------------------------------------------------------------------------------

    def _read(self) -> tuple[Standing, int]:
        [entry] = self._store.read(KIND, [self.id])
        if entry is None or entry.value is None:
            return Standing(), 0
        return msgspec.json.decode(entry.value, type=Standing), entry.version

    def _write(self, standing: Standing, version: int) -> tuple[Standing, int]:
        """Only if nobody else has: whoever is slower of two stops here, and has enqueued nothing twice."""
        value = msgspec.json.encode(standing)
        [entry] = self._store.write([Change(kind=KIND, key=self.id, value=value, version=version, ttl=REMEMBERED)])
        if entry is None:
            raise ReplayConflict(self.id)
        return standing, entry.version


def _jobs(spark: SparkSession, source: str, space: str) -> DataFrame:
    if is_store(source):
        reader = spark.read.format("holdfast").option("url", source).option("space", space)
        return of_store(reader.load("jobs"))
    history = History(spark, source)
    return of_history(history.jobs, history.payloads)


def _id_of(source: str, where: str, space: str, queue: str | None) -> str:
    told = msgspec.json.encode([source, where, space, queue])
    return f"r-{hashlib.blake2b(told, digest_size=6).hexdigest()}"


def _key(begins: str, job_id: str) -> str:
    """Of the replay and the old job; two names of the greatest length are a little too long for a key."""
    key = f"{begins}{job_id}"
    if len(key) <= bounds.MAX_TEXT_BYTES:
        return key
    return f"{begins}{hashlib.blake2b(job_id.encode(), digest_size=32).hexdigest()}"
