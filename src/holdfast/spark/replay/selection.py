"""Which jobs are enqueued again: frames in, frames out. What is done with them is in ``resend.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from holdfast.errors import InvalidInput

MOST_WHERE = 10_000  # characters of a condition
EXAMPLES = 5
SHOWN = 80  # characters of an example's payload

# What a new job takes from the old one. No ``offset``: the place that it names in its domain was used up.
TAKEN = (
    *("job_id", "type", "queue", "payload", "priority", "timeout", "max_attempts", "max_crashes"),
    *("domain", "name", "meta", "webhook"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Chosen jobs that have this in common."""

    queue: str
    type: str
    state: str
    count: int
    without_payload: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One of them."""

    job_id: str
    type: str
    state: str
    payload: str | None  # its beginning


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a replay would do."""

    groups: Sequence[Group]
    examples: Sequence[Example]

    @property
    def chosen(self) -> int:
        """How many jobs fit the condition and have ended."""
        return sum(group.count for group in self.groups)

    @property
    def without_payload(self) -> int:
        """How many of them cannot be enqueued again, because nobody knows any more with what."""
        return sum(group.without_payload for group in self.groups)


def of_history(jobs: DataFrame, payloads: DataFrame) -> DataFrame:
    """The jobs of a history with what they were enqueued with; null where it was not kept."""
    return jobs.join(payloads.drop("position", "day"), "job_id", "left")


def of_store(jobs: DataFrame) -> DataFrame:
    """The jobs of a store, under the names that they have in a history."""
    micros = f.expr("unix_micros(timestamp_micros(0) + timeout)")  # SQL divides no interval by another
    return jobs.withColumnsRenamed({"id": "job_id", "last_error": "error"}).withColumn("timeout", micros)


def select(jobs: DataFrame, where: str, *, not_of: str) -> DataFrame:
    """The jobs that fit a condition and have ended: others are going to run anyway.

    ``not_of`` is the beginning of the keys that this very replay gives: what it has enqueued itself, it does not take
    for more to do. Raises ``InvalidInput`` with the columns that there are.
    """
    if len(where) > MOST_WHERE:
        raise InvalidInput("where", wanted=f"at most {MOST_WHERE} characters", got=f"{len(where)}")
    try:
        chosen = jobs.where(where)
        chosen.schema  # noqa: B018 - Spark Connect looks at a condition only now
    except AnalysisException as error:
        wanted = f"a condition in SQL over {', '.join(jobs.columns)}"
        raise InvalidInput("where", wanted=wanted, got=f"{where}: {_first_line(error)}") from error
    own = chosen["idempotency_key"].startswith(not_of)
    return chosen.where(~chosen["state"].isin("ready", "inflight")).where(own.isNull() | ~own)


def _first_line(error: AnalysisException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "Spark does not understand it").strip()


def preview(chosen: DataFrame) -> Preview:
    """Counted by queue, type and state, with some of them to look at."""
    counts = f.count("*").alias("count"), f.count_if(f.col("payload").isNull()).alias("without_payload")
    groups = chosen.groupBy("queue", "type", "state").agg(*counts).orderBy("count", ascending=False)
    shown = chosen.orderBy("job_id").limit(EXAMPLES)
    begins = f"left(CAST(payload AS STRING), {SHOWN}) AS payload"
    return Preview(
        groups=[Group(**row.asDict()) for row in groups.collect()],
        examples=[Example(**row.asDict()) for row in shown.selectExpr("job_id", "type", "state", begins).collect()],
    )
