"""The settings file: ``holdfast.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from holdfast.clock import from_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration
from holdfast.model.limit_proposal import QueueLimits
from holdfast.model.queue_order import ORDER_FIELDS, QueueOrder
from holdfast.model.queue_settings import LIMIT_FIELDS, TYPE_LIMIT_FIELDS, Gaps, OnExhausted
from holdfast.model.secret import MASK
from holdfast.model.suggestion import did_you_mean
from holdfast.settings.fields import PATHS, REMOVED, SECRETS, SETTINGS, TYPE_NAMES
from holdfast.settings.named_stores import check_store_name, check_store_value
from holdfast.settings.names import FILE_NAME
from holdfast.settings.serve_fields import SERVE
from holdfast.settings.values import QueueTable
from holdfast.settings.webhook_fields import WEBHOOKS


def find_upwards(folder: Path) -> Path | None:
    """Return the first settings file in the folder or above it."""
    candidates = (place / FILE_NAME for place in (folder, *folder.parents))
    return next((file for file in candidates if file.is_file()), None)


def read_file(file: Path) -> dict[str, Any]:
    """Return the checked values of the file; ``queues``, ``schedules`` and ``stores`` are tables by name."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(file), wanted="a settings file that can be read", got=error.strerror or error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(file), wanted="TOML in UTF-8", got=str(error)) from error
    values: dict[str, Any] = {}
    for name, value in _with_tables_of_settings(table, file).items():
        where = f"{name} in {file}"
        if name in _TABLES:
            values[name] = _TABLES[name](value, file)
            continue
        setting = SETTINGS.get(name)
        if name in REMOVED:
            raise InvalidInput(where, wanted=REMOVED[name], got="a setting that was removed")
        if setting is None:
            known = (*SETTINGS, *_TABLES)
            got = f"the unknown {name!r}{did_you_mean(name, known)}"
            raise InvalidInput(where, wanted=f"one of the settings {', '.join(known)}", got=got)
        if type(value) is not setting.toml_type:
            shown = MASK if name in {"url", *SECRETS} else repr(value)
            raise InvalidInput(where, wanted=TYPE_NAMES[setting.toml_type], got=f"{shown} ({type(value).__name__})")
        values[name] = setting.check(where, value)
    folder = file.absolute().parent
    values |= {name: str(folder / values[name]) for name in PATHS if name in values}
    if isinstance(values.get("url"), str):
        values["url"] = _resolve_sqlite_path(str(values["url"]), folder)
    return values


def _with_tables_of_settings(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the settings of a file with those of its tables ``[serve]`` and ``[webhooks]`` among them."""
    for prefix in (SERVE, WEBHOOKS):
        in_table = table.pop(prefix, {})
        if not isinstance(in_table, dict):
            raise InvalidInput(f"{prefix} in {file}", wanted="a table", got=f"a value ({type(in_table).__name__})")
        table |= {f"{prefix}_{name}": value for name, value in in_table.items()}
    return table


def _read_stores(table: object, file: Path) -> dict[str, dict[str, str]]:
    """Return the tables ``[stores.NAME]``. A store without a URL is allowed: a variable may have it."""
    stores: dict[str, dict[str, str]] = {}
    for name, store in table.items() if isinstance(table, dict) else [("NAME", table)]:
        where = f"stores.{name} in {file}"
        if not isinstance(store, dict) or not store.keys() <= {"url", "space"}:
            got = f"the key {min(store.keys() - {'url', 'space'})}" if isinstance(store, dict) else "no table"
            raise InvalidInput(where, wanted="a table with url and space", got=got)
        stores[check_store_name(where, name)] = {}
        for key, value in store.items():
            if type(value) is not str:
                raise InvalidInput(f"{key} of {where}", wanted="text", got=f"a {type(value).__name__}")
            text = check_store_value(f"{key} of {where}", key, value)
            stores[name][key] = _resolve_sqlite_path(text, file.absolute().parent) if key == "url" else text
    return stores


def _read_queues(tables: object, file: Path) -> dict[str, QueueTable]:
    """Return the tables ``[queues.NAME]``, which may have tables ``types.TYPE`` with limits of one type."""
    queues: dict[str, QueueTable] = {}
    for name, table in _tables("queues.NAME", tables, file):
        where = f"queues.{bounds.check_name(f'queues in {file}', name)}"
        types = {
            bounds.check_name(f"type of {where} in {file}", type_): _read_limits(
                f"{where}.types.{type_}", limits, file, fields=TYPE_LIMIT_FIELDS
            )
            for type_, limits in _tables(f"{where}.types.TYPE", table.pop("types", {}), file)
        }
        handlers = _read_handlers(where, table.pop("handlers", None), file)
        order = {field: table.pop(field) for field in ORDER_FIELDS if field in table}
        limits = _read_limits(where, table, file) if table else None
        queues[name] = QueueTable(
            limits=limits, types=types, handlers=handlers, order=_read_order(where, order, file) if order else None
        )
    return queues


def _read_handlers(where: str, types: object, file: Path) -> tuple[str, ...] | None:
    """Return ``handlers`` of a table ``[queues.NAME]``; None allows every handler."""
    if types is None:
        return None
    name = f"handlers of {where} in {file}"
    if not isinstance(types, list):
        raise InvalidInput(name, wanted="a list of types", got=types)
    return tuple(bounds.check_name(name, one) for one in types)


def _read_order(where: str, table: Mapping[str, Any], file: Path) -> QueueOrder:
    """Return the order of ``[queues.NAME]``: words, and times such as ``"5m"``."""
    values: dict[str, Any] = {}
    for field, value in table.items():
        name = f"{field} of {where} in {file}"
        words = _ORDER_WORDS.get(field)
        if words is None:
            if not isinstance(value, str):
                raise InvalidInput(name, wanted=duration.WANTED_DURATION, got=value)
            values[field] = from_timedelta(duration.parse(name, value))
        elif value in list(words):
            values[field] = words(value)
        else:
            raise InvalidInput(name, wanted=" or ".join(words), got=value)
    try:
        return QueueOrder(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{error.field} of {where} in {file}", wanted=error.wanted, got=error.got) from error


_ORDER_WORDS: dict[str, type[Gaps | OnExhausted]] = {"gaps": Gaps, "on_exhausted": OnExhausted}


def _tables(where: str, tables: object, file: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and copies of tables inside a table. Raises ``InvalidInput`` for anything else."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidInput(f"{where} in {file}", wanted="a table", got=f"a value ({type(tables).__name__})")
    return [(name, dict(table)) for name, table in tables.items()]


def _read_limits(
    where: str, table: Mapping[str, Any], file: Path, *, fields: Sequence[str] = LIMIT_FIELDS
) -> QueueLimits:
    unknown = sorted(table.keys() - set(fields))
    if unknown:
        known = (*fields, *(ORDER_FIELDS if fields == LIMIT_FIELDS else ()))
        raise InvalidInput(f"{where} in {file}", wanted=f"{', '.join(known)}", got=f"the key {unknown[0]}")
    values = dict(table)
    for name in ("rate", "key_rate"):
        if isinstance(values.get(name), str):
            values[name] = duration.parse_rate(f"{name} of {where} in {file}", values[name])
    try:
        return QueueLimits(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{error.field} of {where} in {file}", wanted=error.wanted, got=error.got) from error


def _read_schedules(tables: object, file: Path) -> dict[str, dict[str, object]]:
    """Return the tables ``[schedules.NAME]`` as they are; the app reads them."""
    return dict(_tables("schedules.NAME", tables, file))


_TABLES: dict[str, Callable[[object, Path], Mapping[str, object]]] = {
    "queues": _read_queues,
    "schedules": _read_schedules,
    "stores": _read_stores,
}


def _resolve_sqlite_path(url: str, folder: Path) -> str:
    """Resolve a relative SQLite path against the folder of the settings file."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path[1:]))
    if parts.scheme != "sqlite" or parts.netloc or not parts.path[1:] or path.is_absolute():
        return url
    return f"sqlite:///{quote((folder / path).as_posix())}" + (f"?{parts.query}" if parts.query else "")
