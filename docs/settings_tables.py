"""The tables of docs/reference/settings.md: every setting, and those that the specification of the pipeline names."""

from __future__ import annotations

from dataclasses import MISSING, fields
from datetime import timedelta
from typing import NamedTuple

from holdfast.model import duration
from holdfast.model.retry import BuiltInPolicy, format_policy
from holdfast.settings import NAMES, OTHER_SIGNING_KEY, Settings
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


class Named(NamedTuple):
    """A setting of the specification, and what Holdfast has for it: a setting, or a text."""

    name: str
    ours: str  # the name of a setting, or Markdown
    note: str = ""


SPECIFICATION = (
    Named("handlers", "`@app.handler(TYPE)`", "a type has one handler, registered in code"),
    Named("backends", "url", "the scheme of the URL selects the driver; packages add drivers by entry points"),
    Named("queueHandlers", "`[queues.NAME] handlers`", "a queue without the list allows all types"),
    Named("verifyEnvelopeSignature", "signing", "`accept` verifies what is signed, `required` runs nothing else"),
    Named("signingKey", "signing_key"),
    Named("JOBS_SIGNING_KEY", "signing_key", f"read if there is no `{variable_of('signing_key')}`"),
    Named("the encryption key", "signing_key_file", "no key is shared with another purpose"),
    Named("allowedShellCommands", "allowed_shell_commands"),
    Named("allowedEvents", "allowed_events"),
    Named("idempotencyTtl", "idempotency_ttl", "the guard is opt-in: `idempotent`"),
    Named("databaseVisibilityTimeout", "lease", "a heartbeat extends it, so it need not exceed the longest job"),
    Named("redisProcessingVisibilityTimeout", "lease", "the same"),
    Named("serviceBusLockTimeout", "lease", "the same"),
    Named("the argument of `reapExpired`", "lease", "workers reap; each lease has its own end"),
    Named("circuitBreakerThreshold", "breaker_threshold", "per type, not per backend"),
    Named("circuitBreakerCooldown", "breaker_cooldown"),
    Named("queueRateLimits", "`[queues.NAME] rate`, `burst`, `max_inflight`", "also on a handler, and by operators"),
    Named("the retry policy", "retry", "a handler or a job may have its own"),
    Named("maxRetries", "max_attempts", "the most runs: one more than `maxRetries`"),
    Named("the timeout", "timeout", "a handler or a job may have its own"),
    Named("metricsCollector", "metrics", "or `Holdfast(metrics=...)`, or `holdfast work --metrics`"),
    Named("MaxDeliveryCount", "max_attempts", "and three crashes in a row make a dead letter"),
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


def specification_table() -> str:
    """Return the table of the settings of the specification."""
    return "\n".join(
        ["| there | here | default | variable | |", "|---|---|---|---|---|", *map(_specification_row, SPECIFICATION)]
    )


def _specification_row(one: Named) -> str:
    there = one.name if " " in one.name else f"`{one.name}`"
    if one.ours not in NAMES:
        return _row(there, one.ours, "none", "", one.note)
    variable = OTHER_SIGNING_KEY if one.name == OTHER_SIGNING_KEY else variable_of(one.ours)
    return _row(there, f"`{one.ours}`", shown_default(one.ours), f"`{variable}`", one.note)


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
