"""What ``.option(...)`` may say to the sink and to the sources: read and checked once, before any Spark task runs.

An option that is not known is refused: a misspelt ``queue`` would otherwise fill the default one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import settings
from holdfast.clock import from_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration

SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})  # given to Spark, and handed on to every source
PLACE: Final = ("url", "space")
FAIL: Final = "fail"

SINK: Final = (
    *PLACE,
    *("type", "queue", "type_column", "queue_column", "payload", "key", "run", "priority", "max_attempts"),
    *("run_at", "delay", "timeout", "domain", "offset", "name", "webhook", "meta", "bad_rows"),
)
SOURCE: Final = (*PLACE, "table", "path", "partitions")
STREAM: Final = (*SOURCE, "start", "max_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which store, seen by which tenant. Found on the Spark driver; executors need no settings of their own."""

    url: str
    space: str

    def __repr__(self) -> str:
        return f"Place({settings.mask_secrets(self.url)!r}, {self.space!r})"  # a URL may hold a password


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where jobs go, and which columns they are made of."""

    place: Place
    type: str | None  # of every row; or
    type_column: str | None
    queue: str
    queue_column: str | None
    payload: tuple[str, ...]  # empty: every column
    key: tuple[str, ...]  # empty: a key is made
    run: str | None
    columns: Mapping[str, str]  # field of a job: name of a column
    constants: Mapping[str, int]  # field of a job: the value of every row that says nothing else
    bad_rows: str  # FAIL, or the folder of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What to read."""

    place: Place
    table: str
    partitions: int
    start: str
    max_rows: int | None


def sink(given: Mapping[str, str], columns: Sequence[str]) -> Sink:
    """The options of a write, for a frame with these columns."""
    options = _known("sink", given, SINK)
    place, found = _place(options)
    for name in ("type", "type_column"):
        if name in options and not options[name]:
            raise InvalidInput(f"option {name}", wanted="a name", got="nothing")
    if ("type" in options) == ("type_column" in options):
        got = "both" if "type" in options else "neither"
        raise InvalidInput("option type", wanted="the type of all jobs, or type_column with that of each", got=got)
    if "delay" in options and "run_at" in options:
        raise InvalidInput("option delay", wanted="either run_at or delay", got="both")
    named, constants = _fields(options, columns)
    constants.setdefault("max_attempts", found.max_attempts)
    if found.timeout is not None:
        constants.setdefault("timeout", from_timedelta(found.timeout))
    if "offset" in named and "domain" not in named:
        raise InvalidInput("option offset", wanted="a domain beside it", got="an offset alone")
    return Sink(
        place=place,
        type=bounds.check_name("option type", options["type"]) if "type" in options else None,
        type_column=_column(options, "type_column", columns),
        queue=bounds.check_name("option queue", options.get("queue", found.queue)),
        queue_column=_column(options, "queue_column", columns),
        payload=_list(options, "payload", columns),
        key=_list(options, "key", columns),
        run=bounds.check_text("option run", options["run"]) if "run" in options else None,
        columns=named,
        constants=constants,
        bad_rows=options.get("bad_rows", FAIL),
    )


def source(given: Mapping[str, str], *, stream: bool) -> Source:
    """The options of a read."""
    options = _known("ledger stream" if stream else "source", given, STREAM if stream else SOURCE)
    place, _ = _place(options)
    table = options.get("table", options.get("path", "jobs"))
    tables = ("ledger",) if stream else ("jobs", "ledger")
    if table not in tables:
        raise InvalidInput("option table", wanted=" or ".join(tables), got=table)
    start = options.get("start", "oldest")
    return Source(
        place=place,
        table=table,
        partitions=_whole("partitions", options.get("partitions", "16"), most=10_000),
        start=start,
        max_rows=_whole("max_rows", options["max_rows"], most=2**62) if "max_rows" in options else None,
    )


def _known(what: str, given: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    options = {name.lower(): value for name, value in given.items() if name.lower() not in SPARKS_OWN}
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise InvalidInput(f"option {unknown[0]}", wanted=f"an option of the {what}: {', '.join(known)}", got="another")
    return options


def _place(options: Mapping[str, str]) -> tuple[Place, settings.Settings]:
    """The store: the option, else what the settings of the Spark driver's machine say."""
    found = settings.read()
    url = options.get("url") or found.url
    if not url:
        wanted = "a store URL such as sqlite:////var/lib/jobs.db, here or in HOLDFAST_URL of the Spark driver"
        raise InvalidInput("option url", wanted=wanted, got="none")
    return Place(url=url, space=bounds.check_name("option space", options.get("space", found.space))), found


# The fields of a job: columns, or one value for all ---------------------------------------------------------------


def _fields(options: Mapping[str, str], columns: Sequence[str]) -> tuple[dict[str, str], dict[str, int]]:
    named: dict[str, str] = {}
    constants: dict[str, int] = {}
    for field in ("run_at", "domain", "offset", "name", "webhook", "meta"):
        column = _column(options, field, columns)
        if column is not None:
            named[field] = column
    for field in ("priority", "max_attempts", "delay", "timeout"):
        value = options.get(field)
        if value is None:
            continue
        if value in columns:
            named[field] = value
        else:
            constants[field] = _constant(field, value, columns)
    return named, constants


def _constant(field: str, value: str, columns: Sequence[str]) -> int:
    lengths = field in ("delay", "timeout")
    try:
        if lengths:
            return from_timedelta(duration.parse(field, value))
        least, most = (0, bounds.PRIORITIES[-1]) if field == "priority" else (1, bounds.MAX_COUNT)
        return bounds.check_integer(field, int(value), least=least, most=most)
    except ValueError as error:
        what = "a length such as 5m" if lengths else str(getattr(error, "wanted", "a whole number"))
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


def _list(options: Mapping[str, str], option: str, columns: Sequence[str]) -> tuple[str, ...]:
    names = tuple(part.strip() for part in options.get(option, "").split(",") if part.strip())
    for name in names:
        _column({option: name}, option, columns)
    if option in options and not names:
        raise InvalidInput(f"option {option}", wanted=f"columns of {', '.join(columns)}", got="nothing")
    return names


def _whole(option: str, text: str, *, most: int) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text
    return bounds.check_integer(f"option {option}", number, least=1, most=most)
