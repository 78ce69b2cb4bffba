"""``holdfast doctor``: is the store well, and where does each setting come from?"""

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
from holdfast.cli.commands.queue import COUNTED, is_paused, summed
from holdfast.cli.output import Column
from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.clock import MILLISECOND, MINUTE, SECOND, monotonic
from holdfast.drivers.contract import Change, Durability, Feature, Store
from holdfast.errors import HoldfastError, StoreFull
from holdfast.model import duration
from holdfast.settings import NAMES, Settings, mask_secrets, unknown_variables

KIND, KEY = "doctor", "clock"  # a registry row that is written and removed
APART = SECOND  # clocks that differ by more are worth a look; leases are judged by the store's alone
FAR_APART = 5 * MINUTE
MANY_DEAD_ROWS = 50_000
LONG_TRANSACTION = 5 * MINUTE


class Health(StrEnum):
    """How a check went."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at."""

    name: str
    health: Health
    text: str


@click.command(cls=Command)
@click.option("--json", "as_json", is_flag=True, help="JSON: ok, checks, settings.")
@pass_session
def doctor(session: Session, *, as_json: bool) -> None:
    """Check the store and the settings.

    Exits 1 if something is wrong. Makes no store that is not there. To see the store's clock and that it can be
    written to, one small row is written to the registry and removed.
    """
    screen = session.screen
    checks = list(_checks(session))
    settings = _settings(session.settings)
    wrong = [check for check in checks if check.health is Health.WRONG]
    if as_json:
        screen.document(
            {
                "ok": not wrong,
                "checks": [{"name": one.name, "health": one.health, "text": one.text} for one in checks],
                "settings": settings,
            }
        )
    else:
        screen.table(
            [Column(title="CHECK"), Column(title=""), Column(title="FOUND", wrap=True)],
            [(one.name, one.health, one.text) for one in checks],
        )
        screen.line()
        screen.table(
            [Column(title="SETTING"), Column(title="VALUE", wrap=True), Column(title="FROM", wrap=True)],
            [(one["name"], "none" if one["value"] is None else one["value"], one["from"]) for one in settings],
        )
    if wrong:
        raise Stop(Code.WRONG, f"wrong: {', '.join(check.name for check in wrong)}")


def _settings(settings: Settings) -> list[dict[str, Any]]:
    return [
        {"name": name, "value": _shown(name, getattr(settings, name)), "from": settings.origin(name)} for name in NAMES
    ]


def _shown(name: str, value: object) -> object:
    if isinstance(value, timedelta):
        return duration.format_exact(value)
    return mask_secrets(value) if name == "url" and isinstance(value, str) else value


def _checks(session: Session) -> Iterator[Check]:
    """One after the other; without a store to talk to, the rest has no answer."""
    for variable in unknown_variables():
        yield Check(name="environment", health=Health.NOTE, text=f"{variable} is no setting of Holdfast")
    url = session.settings.url
    if url is None:
        yield Check(name="store", health=Health.WRONG, text="no URL: --url, HOLDFAST_URL or url in holdfast.toml")
        return
    try:
        yield from _schema(url)
        began = monotonic()
        store = session.store()
        store.read(KIND, [KEY])
        took = duration.format_rounded(int((monotonic() - began) * SECOND))
    except HoldfastError as error:
        yield Check(name="store", health=Health.WRONG, text=session.shown(str(error)))
        return
    yield Check(name="store", health=Health.OK, text=f"{mask_secrets(url)} opened and read in {took}")
    for look in (_driver, _clock, _room, _vital_signs, _counts):
        try:
            yield from look(session, store)
        except HoldfastError as error:
            yield Check(name=look.__name__.strip("_"), health=Health.WRONG, text=session.shown(str(error)))


def _schema(url: str) -> Iterator[Check]:
    found = schema_access.look(url)
    if found is not None and found.applied:
        behind = found.applied < found.newest
        text = f"version {found.applied}" + (f", to be upgraded to {found.newest} on opening" if behind else "")
        yield Check(name="schema", health=Health.NOTE if behind else Health.OK, text=text)


def _driver(_: Session, store: Store) -> Iterator[Check]:
    able = store.capabilities
    yield Check(name="driver", health=Health.OK, text=able.driver)
    survives = {
        Durability.MEMORY: "nothing outlives the process",
        Durability.PROCESS: "survives the death of a process, not a power cut",
        Durability.FSYNC: "survives a power cut",
    }[able.durability]
    health = Health.OK if able.durability is Durability.FSYNC else Health.NOTE
    yield Check(name="durability", health=health, text=f"{able.durability.name.lower()}: {survives}")
    for feature, reason in able.gaps.items():
        yield Check(name="gap", health=Health.NOTE, text=f"no {feature}: {reason}")


def _clock(session: Session, store: Store) -> Iterator[Check]:
    """The store adds a length to its own clock; taking that length off again tells the time it has."""
    if not store.capabilities.has(Feature.REGISTRY):
        return
    before = session.screen.now()
    [entry] = store.write([Change(kind=KIND, key=KEY, value=b"", ttl=MINUTE)])
    after = session.screen.now()
    store.write([Change(kind=KIND, key=KEY, value=None)])
    assert entry is not None
    assert entry.expires_at is not None
    theirs = entry.expires_at - MINUTE
    apart = before - theirs if theirs < before else max(0, theirs - after)
    yield Check(name="writes", health=Health.OK, text=f"took {duration.format_rounded(after - before)}")
    if apart < MILLISECOND:
        yield Check(name="clock", health=Health.OK, text="the store's clock and this host's agree")
        return
    side = "behind" if theirs < before else "ahead of"
    health = Health.WRONG if apart >= FAR_APART else Health.NOTE if apart >= APART else Health.OK
    yield Check(
        name="clock", health=health, text=f"the store's clock is {duration.format_rounded(apart)} {side} this host's"
    )


def _room(_: Session, store: Store) -> Iterator[Check]:
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


def _vital_signs(_: Session, store: Store) -> Iterator[Check]:
    """Of a database with vacuum: rows it has not removed yet, and the transaction that may be holding it back."""
    look = getattr(store, "table_health", None)
    if look is None:
        return
    signs = look()
    many = signs.dead_rows > max(MANY_DEAD_ROWS, 2 * signs.live_rows)
    text = f"{signs.dead_rows:,} dead beside {signs.live_rows:,} live in the hot tables"
    yield Check(
        name="rows",
        health=Health.NOTE if many else Health.OK,
        text=text + (": is autovacuum on, and no old transaction open?" if many else ""),
    )
    if signs.oldest_transaction is not None:
        old = signs.oldest_transaction > LONG_TRANSACTION
        yield Check(
            name="transaction",
            health=Health.NOTE if old else Health.OK,
            text=f"the oldest is open for {duration.format_rounded(signs.oldest_transaction)}"
            + (": vacuum removes nothing younger, and reserve slows down" if old else ""),
        )


def _counts(session: Session, store: Store) -> Iterator[Check]:
    rows = summed(store.counts())
    total = ", ".join(f"{count} {word}" for word in COUNTED if (count := sum(getattr(row, word) for row in rows)))
    yield Check(name="jobs", health=Health.OK, text=total or "none")
    dead = sum(row.dead for row in rows)
    if dead:
        yield Check(name="dead", health=Health.NOTE, text=f"{dead} dead letters: see `holdfast dead groups`")
    paused = [row.queue for row in rows if row.ready and is_paused(session.screen, store.settings(row.queue))]
    if paused:
        yield Check(name="paused", health=Health.NOTE, text=f"with jobs waiting: {', '.join(paused)}")
