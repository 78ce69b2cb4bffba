"""``holdfast doctor``: check the store, and show where each setting comes from."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from holdfast.cli import schema_access
from holdfast.cli.command import Command
from holdfast.cli.commands.queue import COUNTED_STATES, NOT_DONE, is_paused, sum_by_queue
from holdfast.cli.commands.retention import describe, settings_retention, stored_retention
from holdfast.cli.output import Column
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.clock import MILLISECOND, MINUTE, SECOND, monotonic
from holdfast.drivers.contract import Change, Durability, Feature, Store
from holdfast.errors import HoldfastError, StoreFull
from holdfast.model import duration
from holdfast.model.retention import Retention
from holdfast.settings import NAMES, Settings, mask_secrets, unknown_variables

PROBE_KIND, PROBE_KEY = "doctor", "clock"  # a registry row that is written and removed
# Clock differences in microseconds. Only the store's clock decides about leases, so a small difference does no harm.
NOTED_CLOCK_DIFFERENCE = SECOND
WRONG_CLOCK_DIFFERENCE = 5 * MINUTE
MANY_DEAD_ROWS = 50_000
LONG_TRANSACTION = 5 * MINUTE  # microseconds


class Health(StrEnum):
    """The result of a check."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check and its result."""

    name: str
    health: Health
    text: str


@click.command(cls=Command)
@click.option("--json", "as_json", is_flag=True, help="JSON: ok, checks, settings.")
@click.option("--repair-clock", is_flag=True, help="First move what a wrong clock recorded in the future to now.")
@pass_session
def doctor(session: Session, *, as_json: bool, repair_clock: bool) -> None:
    """Check the store and the settings.

    Exits 1 if a check fails. Creates no store. To read the store's clock and to test that the store is writable, one
    small row is written to the registry and removed.
    """
    output = session.output
    if repair_clock:
        _repair_clock(session)
    checks = list(_checks(session))
    settings = _settings(session.settings)
    wrong = [check for check in checks if check.health is Health.WRONG]
    if as_json:
        output.print_json(
            {
                "ok": not wrong,
                "checks": [{"name": one.name, "health": one.health, "text": one.text} for one in checks],
                "settings": settings,
            }
        )
    else:
        output.print_table(
            [Column(title="CHECK"), Column(title=""), Column(title="RESULT", wrap=True)],
            [(one.name, one.health, one.text) for one in checks],
        )
        output.print_line()
        output.print_table(
            [Column(title="SETTING"), Column(title="VALUE", wrap=True), Column(title="FROM", wrap=True)],
            [(one["name"], "none" if one["value"] is None else one["value"], one["from"]) for one in settings],
        )
    if wrong:
        raise CommandFailed(ExitCode.FAILED, f"wrong: {', '.join(check.name for check in wrong)}")


def _repair_clock(session: Session) -> None:
    repair = getattr(session.store(), "repair_clock", None)
    if repair is None:
        raise CommandFailed(ExitCode.USAGE, "--repair-clock: only a SQLite store records the clock of its host")
    session.output.print_note(f"moved {repair()} rows from the future to now")


def _settings(settings: Settings) -> list[dict[str, Any]]:
    values = {name: getattr(settings, name) for name in NAMES}
    for name, store in settings.stores.items():
        values[f"stores.{name}.url"] = store.url
        if store.space is not None:
            values[f"stores.{name}.space"] = store.space
    return [
        {"name": name, "value": _display_value(name, value), "from": settings.origin(name)}
        for name, value in values.items()
    ]


def _display_value(name: str, value: object) -> object:
    if isinstance(value, timedelta):
        return duration.format_exact(value)
    if isinstance(value, tuple):
        return ", ".join(value) or None
    return mask_secrets(value) if name.endswith("url") and isinstance(value, str) else value


def _checks(session: Session) -> Iterator[Check]:
    """Every check in order; if the store cannot be opened, the checks of the store are skipped."""
    for variable in unknown_variables():
        yield Check(name="environment", health=Health.NOTE, text=f"{variable} is not a setting of Holdfast")
    if session.settings.store_url is None:
        yield Check(name="store", health=Health.WRONG, text="no URL: --url, HOLDFAST_URL or url in holdfast.toml")
        return
    try:
        url = session.url
        yield from _check_schema(url)
        began = monotonic()
        store = session.store()
        store.read(PROBE_KIND, [PROBE_KEY])
        took = duration.format_rounded(int((monotonic() - began) * SECOND))
    except HoldfastError as error:
        yield Check(name="store", health=Health.WRONG, text=session.without_secrets(str(error)))
        return
    yield Check(name="store", health=Health.OK, text=f"{mask_secrets(url)} opened and read in {took}")
    store_checks = {
        "driver": _check_driver,
        "clock": _check_clock,
        "future": _check_future,
        "disk": _check_disk,
        "retention": _check_retention,
        "rows": _check_vacuum,
        "jobs": _check_jobs,
    }
    for name, check in store_checks.items():
        try:
            yield from check(session, store)
        except HoldfastError as error:
            yield Check(name=name, health=Health.WRONG, text=session.without_secrets(str(error)))


def _check_schema(url: str) -> Iterator[Check]:
    version = schema_access.read_version(url)
    if version is not None and version.applied:
        behind = version.applied < version.newest
        text = f"version {version.applied}" + (f", will be upgraded to {version.newest} when opened" if behind else "")
        yield Check(name="schema", health=Health.NOTE if behind else Health.OK, text=text)


def _check_driver(_: Session, store: Store) -> Iterator[Check]:
    capabilities = store.capabilities
    durability = capabilities.durability
    yield Check(name="driver", health=Health.OK, text=capabilities.driver)
    survives = {
        Durability.MEMORY: "jobs are lost when the process exits",
        Durability.PROCESS: "jobs survive the crash of a process, but not a power failure",
        Durability.FSYNC: "jobs survive a power failure",
    }[durability]
    health = Health.OK if durability is Durability.FSYNC else Health.NOTE
    yield Check(name="durability", health=health, text=f"{durability.name.lower()}: {survives}")
    for feature, reason in capabilities.gaps.items():
        yield Check(name="gap", health=Health.NOTE, text=f"no {feature}: {reason}")


def _check_clock(session: Session, store: Store) -> Iterator[Check]:
    """The store computes ``expires_at`` as its clock plus the TTL, so subtracting the TTL gives the store's clock."""
    if not store.capabilities.has(Feature.REGISTRY):
        return
    before = session.output.now()
    [entry] = store.write([Change(kind=PROBE_KIND, key=PROBE_KEY, value=b"", ttl=MINUTE)])
    after = session.output.now()
    store.write([Change(kind=PROBE_KIND, key=PROBE_KEY, value=None)])
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
    yield Check(name="clock", health=health, text=text)


def _check_future(_: Session, store: Store) -> Iterator[Check]:
    """For a store that records the clock of its host: whether that clock was far ahead."""
    count_rows = getattr(store, "count_future_rows", None)
    rows = 0 if count_rows is None else count_rows()
    if rows:
        text = f"{rows} leases, jobs and rates were recorded while the clock was far ahead: run `holdfast doctor"
        yield Check(name="future", health=Health.WRONG, text=f"{text} --repair-clock`")


def _check_disk(_: Session, store: Store) -> Iterator[Check]:
    path, check = getattr(store, "path", None), getattr(store, "check_free_space", None)
    if not isinstance(path, Path) or check is None:
        return
    free = shutil.disk_usage(path.parent).free
    size = sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if file.is_file())
    try:
        check()
        health = Health.OK
    except StoreFull:
        health = Health.WRONG
    text = f"{free >> 20} MiB free, the store takes {size / (1 << 20):.1f} MiB"
    yield Check(name="disk", health=health, text=text + ("" if health is Health.OK else ": new jobs are refused"))


def _check_retention(session: Session, store: Store) -> Iterator[Check]:
    """What the store keeps, and whether the settings want something else."""
    stored, wanted = stored_retention(store), settings_retention(session.settings)
    kept = describe(stored or wanted or Retention())
    if stored is None:
        origin = "the default" if wanted is None else "from the settings; the first worker that trims stores it"
        yield Check(name="retention", health=Health.OK, text=f"{kept} ({origin})")
    elif wanted is None or wanted == stored:
        yield Check(name="retention", health=Health.OK, text=f"{kept} (stored)")
    else:
        text = f"{kept} (stored); the settings want {describe(wanted)}: `holdfast retention` changes what is stored"
        yield Check(name="retention", health=Health.NOTE, text=text)


def _check_vacuum(_: Session, store: Store) -> Iterator[Check]:
    """For a database with vacuum: the rows not vacuumed yet, and the old transaction that may prevent it."""
    read_signs = getattr(store, "table_health", None)
    if read_signs is None:
        return
    signs = read_signs()
    many = signs.dead_rows > max(MANY_DEAD_ROWS, 2 * signs.live_rows)
    text = f"{signs.dead_rows:,} dead and {signs.live_rows:,} live rows in the hot tables"
    yield Check(
        name="rows",
        health=Health.NOTE if many else Health.OK,
        text=text + (": check that autovacuum is on and that no old transaction is open" if many else ""),
    )
    if signs.oldest_transaction is not None:
        old = signs.oldest_transaction > LONG_TRANSACTION
        yield Check(
            name="transaction",
            health=Health.NOTE if old else Health.OK,
            text=f"the oldest is open for {duration.format_rounded(signs.oldest_transaction)}"
            + (": vacuum removes no row that died after its start, and reserve slows down" if old else ""),
        )


def _check_jobs(session: Session, store: Store) -> Iterator[Check]:
    rows = sum_by_queue(store.counts(states=NOT_DONE))  # most jobs are done: doctor does not read them
    totals = {state: sum(getattr(row, state) for row in rows) for state in COUNTED_STATES}
    text = ", ".join(f"{count} {state}" for state, count in totals.items() if count)
    yield Check(name="jobs", health=Health.OK, text=text or "none that is not done")
    dead = sum(row.dead for row in rows)
    if dead:
        yield Check(name="dead", health=Health.NOTE, text=f"{dead} dead letters: see `holdfast dead groups`")
    paused = [row.queue for row in rows if row.ready and is_paused(session.output, store.settings(row.queue))]
    if paused:
        yield Check(name="paused", health=Health.NOTE, text=f"paused queues with ready jobs: {', '.join(paused)}")
