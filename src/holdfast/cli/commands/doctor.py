"""``holdfast doctor``: check the store, and show where each setting comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from holdfast.cli.command import Command
from holdfast.cli.commands.queue import describe_order
from holdfast.cli.doctor import store_checks
from holdfast.cli.doctor.check import Check, Health
from holdfast.cli.doctor.ledger_checks import check_ledger
from holdfast.cli.doctor.signing_check import check_signing
from holdfast.cli.doctor.webhook_checks import check_webhooks
from holdfast.cli.doctor.work_checks import check_work
from holdfast.cli.output import Column, Output
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.clock import SECOND, monotonic
from holdfast.drivers.requests import Inspect
from holdfast.errors import HoldfastError
from holdfast.model import duration
from holdfast.model.limit_proposal import QueueLimits
from holdfast.model.queue_settings import LIMIT_FIELDS
from holdfast.model.secret import Secret
from holdfast.settings import DEFAULT_ORIGIN, NAMES, Settings, mask_secrets, unknown_variables

STORE_CHECKS = {
    "driver": store_checks.check_driver,
    "clock": store_checks.check_clock,
    "future": store_checks.check_future,
    "payloads": store_checks.check_payloads,
    "disk": store_checks.check_disk,
    "retention": store_checks.check_retention,
    "rows": store_checks.check_vacuum,
    "sizes": store_checks.check_sizes,
    "ledger": check_ledger,
    "webhooks": check_webhooks,
    "jobs": check_work,
}


@click.command(cls=Command)
@click.option("--json", "as_json", is_flag=True, help="JSON: ok, checks, settings.")
@click.option("--all", "show_all", is_flag=True, help="Show every setting; JSON always has them all.")
@click.option("--repair-clock", is_flag=True, help="First move what a wrong clock recorded in the future to now.")
@pass_session
def doctor(session: Session, *, as_json: bool, show_all: bool, repair_clock: bool) -> None:
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
                "checks": [
                    {"name": one.name, "health": one.health, "text": one.text, "advice": one.advice or None}
                    for one in checks
                ],
                "settings": settings,
            }
        )
    else:
        output.print_table(
            [Column(title="CHECK"), Column(title=""), Column(title="RESULT", wrap=True)],
            [(one.name, one.health, one.sentence) for one in checks],
        )
        output.print_line()
        _print_settings(output, settings, show_all=show_all)
    if wrong:
        raise CommandFailed(ExitCode.FAILED, f"wrong: {', '.join(check.name for check in wrong)}")


def _repair_clock(session: Session) -> None:
    store = session.store()
    repair = getattr(getattr(store, "engine", store), "repair_clock", None)
    if repair is None:
        raise CommandFailed(ExitCode.USAGE, "--repair-clock: only a SQLite store records the clock of its host")
    session.output.print_note(f"moved {repair()} rows from the future to now")


def _settings(settings: Settings) -> list[dict[str, Any]]:
    values: dict[str, Any] = {name: settings.value_of(name) for name in NAMES}
    for queue in settings.queues:
        limits = [
            f"{one.type or 'all types'}: " + " ".join(f"{name}={value:g}" for name, value in _set_fields(one.limits))
            for one in settings.queue_limits
            if one.queue == queue
        ]
        order = settings.queue_orders.get(queue)
        words = [] if order is None else describe_order(order.as_settings())
        values[f"queues.{queue}"] = ", ".join([*limits, *words])
    for name, table in settings.schedules.items():
        values[f"schedules.{name}"] = f"{table.get('cron')}: {table.get('type')}"
    for name, store in settings.stores.items():
        values[f"stores.{name}.url"] = store.url
        if store.space is not None:
            values[f"stores.{name}.space"] = store.space
    return [
        {"name": name, "value": _display_value(name, value), "from": settings.origin(name)}
        for name, value in values.items()
    ]


def _print_settings(output: Output, settings: list[dict[str, Any]], *, show_all: bool) -> None:
    shown = [one for one in settings if show_all or one["from"] != DEFAULT_ORIGIN]
    if shown:
        output.print_table(
            [Column(title="SETTING"), Column(title="VALUE", wrap=True), Column(title="FROM", wrap=True)],
            [(one["name"], "none" if one["value"] is None else one["value"], one["from"]) for one in shown],
        )
    if len(shown) < len(settings):
        which = f"{len(settings) - len(shown)} other" if shown else f"all {len(settings)}"
        output.print_line(f"{which} settings have their defaults: --all shows them")


def _set_fields(limits: QueueLimits) -> Iterator[tuple[str, float]]:
    values = ((name, getattr(limits, name)) for name in LIMIT_FIELDS)
    return ((name, value) for name, value in values if value is not None)


def _display_value(name: str, value: object) -> object:
    if isinstance(value, timedelta):
        return duration.format_exact(value)
    if isinstance(value, Secret):
        return str(value)
    if isinstance(value, tuple):
        return ", ".join(value) or None
    if dataclasses.is_dataclass(value):  # a retry policy
        return str(value)
    return mask_secrets(value) if name.endswith("url") and isinstance(value, str) else value


def _checks(session: Session) -> Iterator[Check]:
    """Every check in order; if the store cannot be opened, the checks of the store are skipped."""
    for variable in unknown_variables():
        text = f"{variable} is not a setting of Holdfast"
        yield Check(name="environment", health=Health.NOTE, text=text, advice="correct its name, or unset it")
    yield from check_signing(session)
    if session.settings.url is None:
        advice = "give --url, set HOLDFAST_URL, or write url into holdfast.toml"
        yield Check(name="store", health=Health.WRONG, text="no URL", advice=advice)
        return
    try:
        url = session.url
        yield from store_checks.check_schema(url)
        began = monotonic()
        store = session.store()
        store.do(Inspect(job_ids=[store_checks.PROBE_KEY]))
        took = duration.format_rounded(int((monotonic() - began) * SECOND))
    except HoldfastError as error:
        yield Check(name="store", health=Health.WRONG, text=session.without_secrets(str(error)))
        return
    yield Check(name="store", health=Health.OK, text=f"{mask_secrets(url)} opened and read in {took}")
    for name, check in STORE_CHECKS.items():
        try:
            yield from check(session, store)
        except HoldfastError as error:
            yield Check(name=name, health=Health.WRONG, text=session.without_secrets(str(error)))
