"""Checks of the store itself: schema, driver, clock, space, retention, tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli import schema_access
from holdfast.cli.commands.retention import describe, settings_retention, stored_retention
from holdfast.cli.doctor.check import GIBIBYTE, Check, Health, format_bytes
from holdfast.cli.session import Session
from holdfast.clock import MILLISECOND, MINUTE, SECOND
from holdfast.drivers.capabilities import Durability, Feature
from holdfast.drivers.requests import Diagnose, Write
from holdfast.drivers.store import Store
from holdfast.errors import StoreFull
from holdfast.model import duration
from holdfast.model.registry import Change
from holdfast.model.retention import Retention

PROBE_KIND, PROBE_KEY = "doctor", "clock"  # a registry row that is written and removed
# Clock differences in microseconds. Only the store's clock decides about leases, so a small difference does no harm.
NOTED_CLOCK_DIFFERENCE = SECOND
WRONG_CLOCK_DIFFERENCE = 5 * MINUTE
MANY_DEAD_ROWS = 50_000
LONG_TRANSACTION = 5 * MINUTE  # microseconds
LARGE_TABLE_BYTES = 10 * GIBIBYTE
LARGE_UNUSED_BYTES = GIBIBYTE  # of a SQLite file, if most of it is unused
SHOWN_TABLES = 3


def check_schema(url: str) -> Iterator[Check]:
    """Whether opening the store will upgrade its tables."""
    version = schema_access.read_version(url)
    if version is not None and version.applied:
        behind = version.applied < version.newest
        text = f"version {version.applied}" + (f", will be upgraded to {version.newest} when opened" if behind else "")
        advice = "back up the store, then run `holdfast schema upgrade`" if behind else ""
        yield Check(name="schema", health=Health.NOTE if behind else Health.OK, text=text, advice=advice)


def check_driver(_: Session, store: Store) -> Iterator[Check]:
    """The driver, what its jobs survive, and what it does not support."""
    capabilities = store.capabilities
    durability = capabilities.durability
    yield Check(name="driver", health=Health.OK, text=capabilities.driver)
    survives, advice = {
        Durability.MEMORY: ("jobs are lost when the process exits", "use a file or a server for jobs that matter"),
        Durability.PROCESS: (
            "jobs survive the crash of a process, but not a power failure",
            "set synchronous=FULL (SQLite) or synchronous_commit=on (PostgreSQL)",
        ),
        Durability.FSYNC: ("jobs survive a power failure", ""),
    }[durability]
    health = Health.OK if durability is Durability.FSYNC else Health.NOTE
    yield Check(name="durability", health=health, text=f"{durability.name.lower()}: {survives}", advice=advice)
    for feature, reason in capabilities.gaps.items():
        yield Check(name="gap", health=Health.NOTE, text=f"without {feature}: {reason}")


def check_clock(session: Session, store: Store) -> Iterator[Check]:
    """The store computes ``expires_at`` as its clock plus the TTL, so subtracting the TTL gives the store's clock."""
    if not store.capabilities.has(Feature.REGISTRY):
        return
    before = session.output.now()
    [entry] = store.do(Write(changes=[Change(kind=PROBE_KIND, key=PROBE_KEY, value=b"", ttl=MINUTE)]))
    after = session.output.now()
    store.do(Write(changes=[Change(kind=PROBE_KIND, key=PROBE_KEY, value=None)]))
    assert entry is not None
    assert entry.expires_at is not None
    store_now = entry.expires_at - MINUTE
    difference = before - store_now if store_now < before else max(0, store_now - after)
    yield Check(name="writes", health=Health.OK, text=f"took {duration.format_rounded(after - before)}")
    if difference < MILLISECOND:
        yield Check(name="clock", health=Health.OK, text="the store's clock and this host's agree")
        return
    side = "behind" if store_now < before else "ahead of"
    health = Health.OK
    if difference >= NOTED_CLOCK_DIFFERENCE:
        health = Health.WRONG if difference >= WRONG_CLOCK_DIFFERENCE else Health.NOTE
    text = f"the store's clock is {duration.format_rounded(difference)} {side} this host's"
    advice = "" if health is Health.OK else "synchronise the clocks of both hosts (NTP)"
    yield Check(name="clock", health=health, text=text, advice=advice)


def _engine_of(store: Store) -> object:
    """Return what has the checks of one kind of store only."""
    return getattr(store, "engine", store)


def check_future(_: Session, store: Store) -> Iterator[Check]:
    """For a store that records the clock of its host: whether that clock was far ahead."""
    count_rows = getattr(_engine_of(store), "count_future_rows", None)
    rows = 0 if count_rows is None else count_rows()
    if rows:
        text = f"{rows} leases, jobs and rates were recorded while the clock was far ahead"
        yield Check(name="future", health=Health.WRONG, text=text, advice="run `holdfast doctor --repair-clock`")


def check_payloads(_: Session, store: Store) -> Iterator[Check]:
    """For a store that keeps large payloads apart from their jobs: payloads without a job."""
    count = getattr(_engine_of(store), "count_stray_payloads", None)
    stray = 0 if count is None else count()
    if stray:
        text = f"{stray} large payloads have no job: somebody has removed or replaced rows of jobs by hand"
        advice = "restore these rows, or delete the rows of the payloads that no job names"
        yield Check(name="payloads", health=Health.NOTE, text=text, advice=advice)


def check_disk(_: Session, store: Store) -> Iterator[Check]:
    """For a store in a file: the space that is left."""
    engine = _engine_of(store)
    path, check = getattr(engine, "path", None), getattr(engine, "check_free_space", None)
    if not isinstance(path, Path) or check is None:
        return
    free = shutil.disk_usage(path.parent).free
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if file.is_file())
    try:
        check()
        health = Health.OK
    except StoreFull:
        health = Health.WRONG
    text = f"{format_bytes(free)} free, the store takes {format_bytes(size)}"
    if health is Health.OK:
        yield Check(name="disk", health=health, text=text)
    else:
        advice = "free space on the disk, or run `holdfast trim`"
        yield Check(name="disk", health=health, text=f"{text}; new jobs are refused", advice=advice)


def check_retention(session: Session, store: Store) -> Iterator[Check]:
    """What the store keeps, and whether the settings want something else."""
    stored, wanted = stored_retention(store), settings_retention(session.settings)
    kept = describe(stored or wanted or Retention())
    if stored is None:
        origin = "the default" if wanted is None else "from the settings; the first worker that trims stores it"
        yield Check(name="retention", health=Health.OK, text=f"{kept} ({origin})")
    elif wanted is None or wanted == stored:
        yield Check(name="retention", health=Health.OK, text=f"{kept} (stored)")
    else:
        text = f"{kept} (stored); the settings want {describe(wanted)}"
        advice = "`holdfast retention` changes what is stored"
        yield Check(name="retention", health=Health.NOTE, text=text, advice=advice)


def check_vacuum(_: Session, store: Store) -> Iterator[Check]:
    """For a database with vacuum: the rows not vacuumed yet, and the old transaction that may prevent it."""
    signs = store.do(Diagnose()).table_health
    if signs is None:
        return
    many = signs.dead_rows > max(MANY_DEAD_ROWS, 2 * signs.live_rows)
    text = f"{signs.dead_rows:,} dead and {signs.live_rows:,} live rows in the hot tables"
    yield Check(
        name="rows",
        health=Health.NOTE if many else Health.OK,
        text=text,
        advice="check that autovacuum is on and that no old transaction is open" if many else "",
    )
    if signs.oldest_transaction is not None:
        old = signs.oldest_transaction > LONG_TRANSACTION
        yield Check(
            name="transaction",
            health=Health.NOTE if old else Health.OK,
            text=f"the oldest is open for {duration.format_rounded(signs.oldest_transaction)}"
            + ("; vacuum removes no row that died after its start, and reserve slows down" if old else ""),
            advice="find its session in pg_stat_activity, and end it" if old else "",
        )


def check_sizes(_: Session, store: Store) -> Iterator[Check]:
    """The largest tables, and the unused part of a file."""
    bytes_of = store.do(Diagnose()).table_sizes
    sizes = sorted(bytes_of.items(), key=lambda table: table[1], reverse=True)
    if not sizes:
        return
    text = ", ".join(f"{name} {format_bytes(size)}" for name, size in sizes[:SHOWN_TABLES])
    unused = bytes_of.get("unused pages", 0)
    largest, size = sizes[0]
    if unused > LARGE_UNUSED_BYTES and largest == "unused pages":
        advice = "stop the workers and run VACUUM to give the space back, or let new jobs use it"
        yield Check(name="sizes", health=Health.NOTE, text=text, advice=advice)
    elif size > LARGE_TABLE_BYTES:
        advice = "shorten the retention with `holdfast retention`, then run `holdfast trim`; purge dead letters"
        yield Check(name="sizes", health=Health.NOTE, text=text, advice=advice)
    else:
        yield Check(name="sizes", health=Health.OK, text=text)
