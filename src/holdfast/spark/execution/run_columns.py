"""The columns of ``run``: those of the input, the key of a row, and the outcome. Runs on the Spark driver.

Inside of ``run`` the input columns are called ``c0``, ``c1`` and so on. So a name with dots, spaces or backticks, and
a name that Holdfast uses itself, needs no special care. The returned frames have the names of the input again.

Expressions over these names are SQL where possible: one text is one call of the JVM, and a tree of ``Column`` objects
is ten calls for each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql import types as t
from uuid_utils import uuid7

from holdfast.errors import InvalidInput
from holdfast.model.job import State
from holdfast.spark import row_values
from holdfast.spark.datasource.column_types import check_key_types, check_unique_names
from holdfast.spark.datasource.row_keys import key_columns

KEY, OUTCOME = "key", "outcome"  # beside the input columns
KEY_CHARACTERS = 32  # hexadecimal; short, because a store keeps the key of a row in four places
OUTCOME_FIELDS = ("result", "attempts", "error", "reason", "state", "job_id")
DEFAULT_OUTCOME = "holdfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputColumns:
    """The columns of the input, and the places of some among them. Pickled: slots encode rows with it."""

    names: tuple[str, ...]
    kinds: tuple[t.DataType, ...]
    key: tuple[int, ...]
    domain: tuple[int, ...] = ()  # places of the columns of ``order_by``; empty: the rows run in any order
    order: tuple[int, ...] = ()
    case_sensitive: bool = True  # whether names that differ only in case are different names, as the session says

    @property
    def internal_names(self) -> list[str]:
        """The names of these columns inside of ``run``."""
        return [f"c{place}" for place in range(len(self.names))]


def read_columns(df: DataFrame, key: str | Sequence[str]) -> InputColumns:
    """Return the columns of the input. Raises ``InvalidInput`` for columns that cannot become jobs, or be a key."""
    schema = df.schema
    names = schema.fieldNames()
    case_sensitive = df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    key_names = key_columns("key", key, names, case_sensitive=case_sensitive)
    check_unique_names(names)
    check_key_types("key", schema, key_names)
    for field in schema:
        if not row_values.is_exact(field.dataType):
            wanted = "columns of types that a handler can get, with each name of a struct once"
            raise InvalidInput("columns", wanted=wanted, got=f"{field.name} {field.dataType.simpleString()}")
    return InputColumns(
        names=tuple(names),
        kinds=tuple(field.dataType for field in schema),
        key=tuple(names.index(name) for name in key_names),
        case_sensitive=case_sensitive,
    )


# The outcome ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeColumns:
    """Where the outcome of a row is in the returned frames: one struct, or a column for each field if it is None."""

    struct: str | None

    @property
    def names(self) -> list[str]:
        """The columns that the returned frames have beside those of the input."""
        return list(OUTCOME_FIELDS) if self.struct is None else [self.struct]


def choose_outcome_columns(columns: InputColumns, column: str | None, *, flatten: bool) -> OutcomeColumns:
    """Return the outcome columns for an input with these columns. Raises ``InvalidInput`` if a name is taken.

    The default name of the struct is never taken: ``holdfast_2`` follows ``holdfast``, so that the result of a run can
    be the input of another.
    """
    normal = str if columns.case_sensitive else str.lower
    taken = {normal(name) for name in columns.names}
    if flatten and column is not None:
        raise InvalidInput("column", wanted="no name beside flatten=True", got=column)
    if column is None and not flatten:
        number = 1
        column = DEFAULT_OUTCOME
        while normal(column) in taken:
            number += 1
            column = f"{DEFAULT_OUTCOME}_{number}"
    chosen = OutcomeColumns(struct=column)
    collisions = [name for name in chosen.names if normal(name) in taken]
    if collisions or column == "":
        field, wanted = ("flatten", "an input without these columns") if flatten else ("column", "a name that is free")
        raise InvalidInput(field, wanted=wanted, got=", ".join(collisions) or "an empty name")
    return chosen


def newest_outcomes(outcomes: DataFrame) -> DataFrame:
    """Return one outcome for each key, of the newest job: a dead row may have run again after its key was forgotten."""
    fields = ("job_id", *(name for name in OUTCOME_FIELDS if name != "job_id"))  # ids grow with time
    return outcomes.groupBy("job_key").agg(f.max(f.struct(*fields)).alias(OUTCOME)).select("job_key", f"{OUTCOME}.*")


def join_outcomes(rows: DataFrame, outcomes: DataFrame, *, partitions: int) -> DataFrame:
    """Return every row with the outcome of its job; null if the job has not ended, or is no longer kept.

    ``rows`` are in ``partitions`` partitions by key: with the outcomes in as many, Spark moves no row for the join. The
    hint forbids a broadcast join: Spark cannot know how many outcomes the store has, and estimates a few bytes.
    """
    outcomes = outcomes.repartition(partitions, f.col("job_key"))
    joined = rows.join(outcomes.hint("merge"), rows[KEY] == outcomes["job_key"], "left")
    kept = [name for name in rows.columns if name != KEY]
    return joined.selectExpr(*kept, f"IF(job_id IS NOT NULL, struct({', '.join(OUTCOME_FIELDS)}), NULL) AS {OUTCOME}")


def split_outcomes(rows: DataFrame, columns: InputColumns, outcome: OutcomeColumns) -> tuple[DataFrame, DataFrame]:
    """Return ``(ok, dead)`` of the rows that have ended: every such row is in exactly one of the two."""
    is_done = f"{OUTCOME}.state = '{State.DONE}'"
    fields = [OUTCOME] if outcome.struct is not None else [f"{OUTCOME}.{name}" for name in OUTCOME_FIELDS]
    names = [*columns.names, *outcome.names]
    ok, dead = (
        rows.where(part).selectExpr(*columns.internal_names, *fields).toDF(*names)
        for part in (is_done, f"NOT {is_done}")
    )
    return ok, dead


# Rows -------------------------------------------------------------------------------------------------------


def keyed_rows(df: DataFrame, columns: InputColumns) -> DataFrame:
    """Return the input under internal names, with the key of each row."""
    rows = df.toDF(*columns.internal_names)
    return rows.withColumn(KEY, _only_in_this_call(_key_of(columns)))


def check_nulls(rows: DataFrame, df: DataFrame, columns: InputColumns) -> None:
    """Raise ``InvalidInput`` if a column of the key or of ``order_by`` is null in some row.

    Reads the rows only if a null is possible.
    """
    arguments = dict.fromkeys((*columns.domain, *columns.order), "order_by") | dict.fromkeys(columns.key, "key")
    nullable = [place for place in arguments if df.schema[place].nullable]
    if not nullable:
        return
    names = columns.internal_names
    found = rows.select(*(f.max(f.col(names[place]).isNull()) for place in nullable)).first()
    assert found is not None
    for place, has_null in zip(nullable, found, strict=True):
        if has_null:
            raise InvalidInput(f"{arguments[place]} {columns.names[place]}", wanted="a value in every row", got="null")


def slot_rows(rows: DataFrame, columns: InputColumns) -> DataFrame:
    """Return the key and the input columns as Arrow can transfer them: year-month intervals as months."""
    jobs = rows.selectExpr(KEY, *columns.internal_names)
    for name, kind in zip(columns.internal_names, columns.kinds, strict=True):
        if row_values.contains(kind, t.YearMonthIntervalType):
            months = t.YearMonthIntervalType(t.YearMonthIntervalType.MONTH, t.YearMonthIntervalType.MONTH)
            column = f.col(name).cast(row_values.replace_months(kind, months))
            jobs = jobs.withColumn(name, column.cast(row_values.replace_months(kind, t.IntegerType())))
    return jobs


def _key_of(columns: InputColumns) -> Column:
    """Return the key of a row: a hash that is the same for the same values in every application and time zone."""
    texts = [exact_text(f.col(columns.internal_names[place]), columns.kinds[place]) for place in columns.key]
    return f.substring(f.sha2(f.to_json(f.array(*texts)), 256), 1, KEY_CHARACTERS)


def exact_text(column: Column, kind: t.DataType) -> Column:
    """Return a value of a key type as text that is the same in every application and time zone."""
    match kind:
        case t.DateType():
            return f.unix_date(column).cast("string")
        case t.TimestampType():
            return f.unix_micros(column).cast("string")  # as text it would depend on the time zone of the session
        case _:
            return column.cast("string")


def _only_in_this_call(key: Column) -> Column:
    """Return the same key by an expression that no other plan has.

    Spark answers a frame from the cache of any frame with an equal plan, and frees both when one of them is freed. So
    two calls with one input would share their rows, of which one call may be a later state of a table.
    """
    return f.when(f.lit(str(uuid7())) == "", None).otherwise(key)
