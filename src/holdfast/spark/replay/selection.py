"""Which jobs a replay selects. Frames in, frames out; ``replay.py`` enqueues them. Runs on the Spark driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from holdfast.errors import InvalidInput

MAX_CONDITION_CHARACTERS = 10_000
EXAMPLE_COUNT = 5
EXAMPLE_PAYLOAD_CHARACTERS = 80

# The columns that a new job copies from the old one. Not ``offset``: the old job has used this offset of its domain.
COPIED_COLUMNS = (
    *("job_id", "type", "queue", "payload", "priority", "timeout", "max_attempts", "max_crashes"),
    *("domain", "limit_key", "name", "meta", "webhook"),
)
# The columns that a signature covers, beside the copied ones. Only the jobs of a store have them.
SIGNED_COLUMNS = ("signature", "idempotency_key", "offset", "created_micros", "requested_micros")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Selected jobs with the same queue, type and state."""

    queue: str
    type: str
    state: str
    count: int
    without_payload: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One selected job."""

    job_id: str
    type: str
    state: str
    payload: str | None  # the beginning of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a replay would do."""

    groups: Sequence[Group]
    examples: Sequence[Example]

    @property
    def chosen(self) -> int:
        """The number of ended jobs that match the condition."""
        return sum(group.count for group in self.groups)

    @property
    def without_payload(self) -> int:
        """The number of selected jobs that cannot be enqueued again, because their payload was not kept."""
        return sum(group.without_payload for group in self.groups)


def jobs_of_history(jobs: DataFrame, payloads: DataFrame) -> DataFrame:
    """Return the jobs of a history with their payloads; null where the payload was not kept."""
    return jobs.join(payloads.drop("position", "day"), "job_id", "left")


def jobs_of_store(jobs: DataFrame) -> DataFrame:
    """Return the jobs of a store with the column names of a history."""
    micros = f.expr("unix_micros(timestamp_micros(0) + timeout)")  # SQL cannot divide an interval by an interval
    instants = {
        "created_micros": f.expr("unix_micros(created_at)"),
        "requested_micros": f.expr("unix_micros(requested_run_at)"),
    }
    renamed = jobs.withColumnsRenamed({"id": "job_id", "last_error": "error"})
    return renamed.withColumn("timeout", micros).withColumns(instants)


def select(jobs: DataFrame, where: str, *, own_keys: str) -> DataFrame:
    """Return the jobs that match a condition and have ended: all other jobs will run anyway.

    ``own_keys`` is the prefix of the keys of this replay's new jobs: a replay does not select jobs that it enqueued.
    Raises ``InvalidInput``, which names the columns, for a condition that Spark refuses.
    """
    if len(where) > MAX_CONDITION_CHARACTERS:
        raise InvalidInput("where", wanted=f"at most {MAX_CONDITION_CHARACTERS} characters", got=f"{len(where)}")
    try:
        selected = jobs.where(where)
        selected.schema  # noqa: B018 - Spark Connect analyses a condition only here
    except AnalysisException as error:
        wanted = f"a condition in SQL over {', '.join(jobs.columns)}"
        raise InvalidInput("where", wanted=wanted, got=f"{where}: {_first_line(error)}") from error
    is_own = selected["idempotency_key"].startswith(own_keys)
    return selected.where(~selected["state"].isin("ready", "inflight")).where(is_own.isNull() | ~is_own)


def _first_line(error: AnalysisException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "Spark cannot parse it").strip()


def preview(selected: DataFrame) -> Preview:
    """Count the jobs by queue, type and state, and return some examples."""
    counts = f.count("*").alias("count"), f.count_if(f.col("payload").isNull()).alias("without_payload")
    groups = selected.groupBy("queue", "type", "state").agg(*counts).orderBy("count", ascending=False)
    examples = selected.orderBy("job_id").limit(EXAMPLE_COUNT)
    payload = f"left(CAST(payload AS STRING), {EXAMPLE_PAYLOAD_CHARACTERS}) AS payload"
    return Preview(
        groups=[Group(**row.asDict()) for row in groups.collect()],
        examples=[Example(**row.asDict()) for row in examples.selectExpr("job_id", "type", "state", payload).collect()],
    )
