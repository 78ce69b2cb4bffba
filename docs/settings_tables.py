"""The table of docs/reference/settings.md: every setting."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import timedelta

from holdfast.model import duration
from holdfast.model.retry import BuiltInPolicy, format_policy
from holdfast.settings import Settings
from holdfast.settings.fields import SETTINGS
from holdfast.settings.names import variable_of
from holdfast.settings.serve import ServeSettings
from holdfast.settings.serve_fields import SERVE
from holdfast.settings.webhook_fields import WEBHOOKS
from holdfast.settings.webhooks import WebhookSettings

DEFAULTS = (
    {field.name: field.default for field in fields(Settings) if field.default is not MISSING}
    | {f"{SERVE}_{field.name}": field.default for field in fields(ServeSettings)}
    | {f"{WEBHOOKS}_{field.name}": field.default for field in fields(WebhookSettings)}
)


def settings_table() -> str:
    """Return the table of every setting."""
    rows = [
        _row(f"`{name}`", one.kind, shown_default(name), f"`{variable_of(name)}`", _options(one.option), one.meaning)
        for name, one in SETTINGS.items()
    ]
    return "\n".join(
        ["| setting | value | default | variable | option | meaning |", "|---|---|---|---|---|---|", *rows]
    )


def _row(*cells: str) -> str:
    return " ".join(("|", *(f"{cell} |" if cell else "|" for cell in cells)))


def shown_default(name: str) -> str:
    """Return a default as it is written in the file."""
    value = DEFAULTS[name]
    match value:
        case None | () | "":
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case timedelta():
            return f"`{duration.format_exact(value)}`"
        case int() | str():
            return f"`{value}`"
        case tuple():
            return f"`{','.join(value)}`"
        case _:
            assert isinstance(value, BuiltInPolicy), value
            return f"`{format_policy(value)}`"


def _options(text: str) -> str:
    """Return the options as code; a text that has code already stays as it is."""
    return "; ".join(part if "`" in part else f"`{part}`" for part in text.split("; ")) if text else ""
