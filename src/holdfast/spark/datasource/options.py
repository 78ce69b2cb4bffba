"""The options of the sink and of the sources. Read and checked on the Spark driver, before any Spark task runs.

An unknown option is refused: with a misspelt ``queue`` the jobs would go to the default queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import settings
from holdfast.clock import from_datetime, from_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration, instant
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.spark.datasource.row_keys import key_columns

FILTER_OPTIONS: Final = ("queue", "state", "type", "domain", "name", "key", "reason", "since", "until")
SPARK_OPTIONS: Final = frozenset({"checkpointlocation", "queryname"})  # Spark passes its own options to every source
STORE_OPTIONS: Final = ("url", "store", "space")
FAIL: Final = "fail"
SINK_OPTIONS: Final = (
    *STORE_OPTIONS,
    *("type", "queue", "type_column", "queue_column", "payload", "key", "run", "priority", "max_attempts"),
    *("run_at", "delay", "timeout", "domain", "offset", "limit_key", "name", "webhook", "meta", "bad_rows"),
)
_TABLE_OPTIONS: Final = (*STORE_OPTIONS, "table", "path", "partitions")
SOURCE_OPTIONS: Final = {"jobs": (*_TABLE_OPTIONS, *FILTER_OPTIONS), "ledger": _TABLE_OPTIONS}  # by table
STREAM_OPTIONS: Final = (*_TABLE_OPTIONS, "start", "max_rows")
_COLUMN_FIELDS: Final = ("run_at", "domain", "offset", "limit_key", "name", "webhook", "meta")
_COLUMN_OR_CONSTANT_FIELDS: Final = ("priority", "max_attempts", "delay", "timeout")


def parse_job_filter(options: Mapping[str, str]) -> JobFilter:
    """Return the filter that the options describe; a job must meet all of them. Raises ``InvalidInput``.

    Filters of Spark (``where``) are not pushed to the store (``pushFilters``). Spark 4.1 to 4.3 keep pushed filters in
    a reader that all queries of a frame share: after ``jobs.where("queue = 'a'").count()``, ``jobs.count()`` counts the
    queue ``a`` only. Spark also refuses a reader with ``pushFilters``, unless a setting of the session allows it.
    """
    return JobFilter(
        states=_states(options["state"]) if "state" in options else None,
        queue=_name(options, "queue"),
        type=_name(options, "type"),
        domain=_text(options, "domain"),
        name=_text(options, "name"),
        idempotency_key=_text(options, "key"),
        reason=_text(options, "reason"),
        created_from=_instant(options, "since"),
        created_before=_instant(options, "until"),
    )


def _states(text: str) -> tuple[State, ...]:
    names = [part.strip() for part in text.split(",")]
    unknown = [name for name in names if name not in set(State)]
    if unknown:
        wanted = f"states, separated by commas: {', '.join(State)}"
        raise InvalidInput("option state", wanted=wanted, got=unknown[0] or "nothing")
    return tuple(state for state in State if state in names)


def _name(options: Mapping[str, str], option: str) -> str | None:
    return bounds.check_name(f"option {option}", options[option]) if option in options else None


def _text(options: Mapping[str, str], option: str) -> str | None:
    return bounds.check_text(f"option {option}", options[option]) if option in options else None


def _instant(options: Mapping[str, str], option: str) -> int | None:
    return from_datetime(instant.parse(f"option {option}", options[option])) if option in options else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreLocation:
    """A store and a space. Chosen on the Spark driver and pickled; executors resolve the name of a store."""

    url: str  # store:NAME for a store that is given by its name: then no URL is in the pickled work
    space: str

    def __repr__(self) -> str:
        return f"StoreLocation({settings.mask_secrets(self.url)!r}, {self.space!r})"  # the URL may contain a password


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where jobs are written, and from which columns."""

    store: StoreLocation
    type: str | None  # of every row; or None, with type_column
    type_column: str | None
    queue: str
    queue_column: str | None
    payload: tuple[str, ...]  # empty: every column
    key: tuple[str, ...]  # empty: the sink makes a key
    run: str | None
    columns: Mapping[str, str]  # field of a job: name of a column
    constants: Mapping[str, int]  # field of a job: value for every row without a column value
    bad_rows: str  # FAIL, or the folder of a table
    signing: settings.SigningMode = settings.SigningMode.OFF  # of the Spark driver; each executor has its own keys


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Which table to read, and how."""

    store: StoreLocation
    table: str
    where: JobFilter  # of the table jobs
    partitions: int
    start: str
    max_rows: int | None


def parse_sink(spark_options: Mapping[str, str], columns: Sequence[str]) -> SinkOptions:
    """Return the options of a write, for a DataFrame with these columns. Raises ``InvalidInput``."""
    options = _check_known("sink", spark_options, SINK_OPTIONS)
    store, defaults = _store_location(options)
    for name in ("type", "type_column"):
        if name in options and not options[name]:
            raise InvalidInput(f"option {name}", wanted="a name", got="nothing")
    if ("type" in options) == ("type_column" in options):
        got = "both" if "type" in options else "neither"
        raise InvalidInput("option type", wanted="the type of all jobs, or type_column with that of each", got=got)
    if "delay" in options and "run_at" in options:
        raise InvalidInput("option delay", wanted="either run_at or delay", got="both")
    field_columns, constants = _fields(options, columns)
    constants.setdefault("max_attempts", defaults.max_attempts)
    if defaults.timeout is not None:
        constants.setdefault("timeout", from_timedelta(defaults.timeout))
    if "offset" in field_columns and "domain" not in field_columns:
        raise InvalidInput("option offset", wanted="a domain beside it", got="an offset alone")
    return SinkOptions(
        store=store,
        type=bounds.check_name("option type", options["type"]) if "type" in options else None,
        type_column=_column(options, "type_column", columns),
        queue=bounds.check_name("option queue", options.get("queue", DEFAULT_QUEUE)),
        queue_column=_column(options, "queue_column", columns),
        payload=_column_list(options, "payload", columns),
        key=key_columns("option key", options["key"], columns) if "key" in options else (),
        run=bounds.check_text("option run", options["run"]) if "run" in options else None,
        columns=field_columns,
        constants=constants,
        bad_rows=options.get("bad_rows", FAIL),
        signing=defaults.signing,
    )


def parse_source(spark_options: Mapping[str, str], *, stream: bool) -> SourceOptions:
    """Return the options of a read. Raises ``InvalidInput``."""
    given = {name.lower(): value for name, value in spark_options.items()}
    table = given.get("table", given.get("path", "jobs"))
    tables = ("ledger",) if stream else ("jobs", "ledger")
    if table not in tables:
        raise InvalidInput("option table", wanted=" or ".join(tables), got=table)
    if stream:
        options = _check_known("ledger stream", spark_options, STREAM_OPTIONS)
    else:
        options = _check_known(f"source {table}", spark_options, SOURCE_OPTIONS[table])
    store, _ = _store_location(options)
    return SourceOptions(
        store=store,
        table=table,
        where=JobFilter() if table == "ledger" else parse_job_filter(options),
        partitions=_integer("partitions", options.get("partitions", "16"), most=10_000),
        start=options.get("start", "oldest"),
        max_rows=_integer("max_rows", options["max_rows"], most=2**62) if "max_rows" in options else None,
    )


def _check_known(what: str, spark_options: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    options = {name.lower(): value for name, value in spark_options.items() if name.lower() not in SPARK_OPTIONS}
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise InvalidInput(f"option {unknown[0]}", wanted=f"an option of the {what}: {', '.join(known)}", got="another")
    return options


def _store_location(options: Mapping[str, str]) -> tuple[StoreLocation, settings.Settings]:
    """Return the store, and the settings of the Spark driver's machine, which are the defaults."""
    defaults = settings.read()
    if options.get("url") and options.get("store"):
        raise InvalidInput("option store", wanted="either a url or a store", got="both")
    url = settings.named_store_url(options["store"]) if options.get("store") else options.get("url")
    url = url or defaults.url
    if not url:
        wanted = "a store URL such as sqlite:////var/lib/jobs.db, here or in HOLDFAST_URL of the Spark driver"
        raise InvalidInput("option url", wanted=f"{wanted}, or the option store", got="none")
    space = options["space"] if "space" in options else defaults.space_of(url)
    return StoreLocation(url=url, space=bounds.check_name("option space", space)), defaults


# The fields of a job: a column, or one value for all rows -----------------------------------------------------------


def _fields(options: Mapping[str, str], columns: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    field_columns: dict[str, str] = {}
    constants: dict[str, int] = {}
    for field in _COLUMN_FIELDS:
        column = _column(options, field, columns)
        if column is not None:
            field_columns[field] = column
    for field in _COLUMN_OR_CONSTANT_FIELDS:
        value = options.get(field)
        if value is None:
            continue
        if value in columns:
            field_columns[field] = value
        else:
            constants[field] = _constant(field, value, columns)
    return field_columns, constants


def _constant(field: str, value: str, columns: Sequence[str]) -> int:
    is_duration = field in ("delay", "timeout")
    try:
        if is_duration:
            return from_timedelta(duration.parse(field, value))
        least, most = (0, bounds.PRIORITIES[-1]) if field == "priority" else (1, bounds.MAX_COUNT)
        return bounds.check_integer(field, int(value), least=least, most=most)
    except ValueError as error:
        what = "a length such as 5m" if is_duration else str(getattr(error, "wanted", "a whole number"))
        raise InvalidInput(
            f"option {field}", wanted=f"{what}, or a column of {', '.join(columns)}", got=value
        ) from error


def _column(options: Mapping[str, str], option: str, columns: Sequence[str]) -> str | None:
    name = options.get(option)
    if name is None:
        return None
    if name not in columns:
        raise InvalidInput(f"option {option}", wanted=f"a column of {', '.join(columns)}", got=name)
    return name


def _column_list(options: Mapping[str, str], option: str, columns: Sequence[str]) -> tuple[str, ...]:
    names = tuple(part.strip() for part in options.get(option, "").split(",") if part.strip())
    for name in names:
        _column({option: name}, option, columns)
    if option in options and not names:
        raise InvalidInput(f"option {option}", wanted=f"columns of {', '.join(columns)}", got="nothing")
    return names


def _integer(option: str, text: str, *, most: int) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
    return bounds.check_integer(f"option {option}", number, least=1, most=most)
