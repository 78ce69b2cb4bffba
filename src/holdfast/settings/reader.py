"""Read the settings from all their sources: the file, then the environment, then arguments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.settings.fields import REMOVED, SETTINGS
from holdfast.settings.file import find_upwards, read_file
from holdfast.settings.named_stores import check_store_value, named_stores, store_variables
from holdfast.settings.names import CONFIG, OTHER_SIGNING_KEY, PREFIX, variable_of
from holdfast.settings.serve import ServeSettings
from holdfast.settings.serve_fields import SERVE, SERVE_SETTINGS
from holdfast.settings.values import QueueTable, Settings
from holdfast.settings.webhook_fields import WEBHOOK_SETTINGS, WEBHOOKS
from holdfast.settings.webhooks import WebhookSettings


def read(
    given: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings in force; ``given`` are arguments, which override the file and the environment.

    The file is ``file``, else the one that ``HOLDFAST_CONFIG`` names, else the first ``holdfast.toml`` in ``folder``
    (the working directory) or above it. A named file must exist.
    """
    environ = os.environ if environ is None else environ
    named = file or (Path(environ[CONFIG]) if environ.get(CONFIG) else None)
    path = named or find_upwards(folder or Path.cwd())
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    stores: dict[str, dict[str, str]] = {}
    queues: dict[str, QueueTable] = {}
    schedules: dict[str, dict[str, object]] = {}
    if path is not None:
        in_file = read_file(path)
        queues = in_file.pop("queues", {})
        origins |= dict.fromkeys((f"queues.{name}" for name in queues), str(path))
        schedules = in_file.pop("schedules", {})
        origins |= dict.fromkeys((f"schedules.{name}" for name in schedules), str(path))
        stores = in_file.pop("stores", {})
        origins |= {f"stores.{name}.{key}": str(path) for name, store in stores.items() for key in store}
        values |= in_file
        origins |= dict.fromkeys(in_file, str(path))
    for name, wanted in REMOVED.items():
        if environ.get(variable_of(name)):
            raise InvalidInput(variable_of(name), wanted=wanted, got="a setting that was removed")
    variables = {name: variable_of(name) for name in SETTINGS if environ.get(variable_of(name))}
    if environ.get(OTHER_SIGNING_KEY):
        variables.setdefault("signing_key", OTHER_SIGNING_KEY)
    values |= _parse_texts(variables, environ)
    origins |= variables
    for (name, key), variable in store_variables(environ).items():
        stores.setdefault(name, {})[key] = check_store_value(variable, key, environ[variable])
        origins[f"stores.{name}.{key}"] = variable
    arguments = {name: f"--{name.removeprefix(f'{SERVE}_').replace('_', '-')}" for name in given or {}}
    texts = {arguments[name]: text for name, text in (given or {}).items()}
    values |= _parse_texts(arguments, texts)
    origins |= arguments
    serve = {name: values.pop(f"{SERVE}_{name}") for name in SERVE_SETTINGS if f"{SERVE}_{name}" in values}
    webhooks = {name: values.pop(f"{WEBHOOKS}_{name}") for name in WEBHOOK_SETTINGS if f"{WEBHOOKS}_{name}" in values}
    return Settings(
        **values,
        serve=ServeSettings(**serve),
        webhooks=WebhookSettings(**webhooks),
        queues=queues,
        schedules=schedules,
        stores=named_stores(stores),
        origins=origins,
    )


def _parse_texts(names: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of settings whose texts are known by another name: that of a variable or of an argument."""
    return {name: SETTINGS[name].check(other, SETTINGS[name].from_text(texts[other])) for name, other in names.items()}


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the ``HOLDFAST_*`` variables that name no setting: worth a warning, not an error."""
    environ = os.environ if environ is None else environ
    known = {CONFIG, *(variable_of(name) for name in SETTINGS), *store_variables(environ, empty=True).values()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)
