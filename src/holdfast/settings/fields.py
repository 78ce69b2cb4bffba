"""The settings: how each is read, checked and documented."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.clock import DAY
from holdfast.errors import InvalidInput
from holdfast.model import bounds, lease
from holdfast.net.addresses import parse_network
from holdfast.net.urls import parse_pattern
from holdfast.settings.named_stores import check_url
from holdfast.settings.serve_fields import SERVE, SERVE_SETTINGS
from holdfast.settings.setting import (
    Setting,
    boolean_or_text,
    check_names,
    check_object_path,
    check_path,
    check_retry,
    check_secret,
    choice_setting,
    count_setting,
    duration_setting,
    list_setting,
)
from holdfast.settings.values import LogFormat, LogLevel, SigningMode
from holdfast.settings.webhook_fields import WEBHOOK_SETTINGS, WEBHOOKS


def check_program(field_name: str, path: str) -> str:
    """Check the path of a program that jobs may run."""
    if not is_plain_path(path):
        raise InvalidInput(field_name, wanted="the absolute path of a program, such as /usr/bin/rsync", got=path)
    return path


def is_plain_path(path: str) -> bool:
    """Whether a path is absolute and written in the one way that has no ``..``, no ``.`` and no second slash."""
    return Path(path).is_absolute() and os.path.normpath(path) == path and "\0" not in path


SETTINGS: dict[str, Setting] = {
    "url": Setting(check=check_url, kind="URL", meaning="the store, or its name: `store:NAME`", option="--url"),
    "space": Setting(check=bounds.check_name, kind="name", meaning="the tenant", option="--space"),
    "environment": Setting(
        check=bounds.check_name,
        kind="name",
        meaning="such as `production`: schedules with `environments` fire only in these",
    ),
    "max_attempts": count_setting(
        meaning="the most runs of a job, for jobs without their own", option="enqueue --max-attempts"
    ),
    "timeout": duration_setting(1, meaning="of one attempt, for jobs without their own", option="enqueue --timeout"),
    "retry": Setting(
        check=check_retry,
        kind="policy",
        meaning="delays between the runs of a job, for jobs and handlers without a policy",
    ),
    "lease": duration_setting(
        lease.MIN_LEASE, meaning="the length of a worker's leases; at least 100 ms", option="work --lease"
    ),
    "breaker_threshold": count_setting(
        meaning="failed attempts in a row that open the breaker of a type; none: no breaker"
    ),
    "breaker_cooldown": duration_setting(1, meaning="for how long a breaker is open"),
    "app": Setting(
        check=check_object_path,
        kind="`module:object`",
        meaning="its handlers are run, and say how their jobs are enqueued",
        option="`MODULE:APP` of work; enqueue --app",
    ),
    "metrics": Setting(check=check_object_path, kind="`module:object`", meaning="a collector of metrics of your own"),
    "keep_ended": duration_setting(  # law L6: a repeated settlement is answered for a day
        DAY, meaning="how long done and cancelled jobs are kept; at least a day", option="retention --keep-ended"
    ),
    "keep_ledger": duration_setting(1, meaning="how long ledger rows are kept", option="retention --keep-ledger"),
    "keep_dead": duration_setting(
        DAY, meaning="how long dead letters are kept; none: until they are purged", option="retention --keep-dead"
    ),
    "idempotent": Setting(
        check=bounds.check_boolean,
        toml_type=bool,
        from_text=boolean_or_text,
        kind="true or false",
        meaning="skip jobs whose idempotency key is done, for handlers that do not say",
    ),
    "idempotency_ttl": duration_setting(1, meaning="how long a key is done"),
    "log": choice_setting(LogFormat, meaning="the format of the log", option="work --log"),
    "log_level": choice_setting(LogLevel, meaning="the lowest level that is logged", option="work --log-level"),
    "log_redact": Setting(check=check_names, kind="names with commas", meaning="more names whose values the log masks"),
    "allowed_shell_commands": list_setting(
        check_program, kind="paths", meaning="programs that the handler `shell` may run"
    ),
    "allowed_urls": list_setting(parse_pattern, kind="URL patterns", meaning="URLs that the handler `url` may request"),
    "allowed_networks": list_setting(
        parse_network, kind="networks", meaning="private networks that these requests may reach"
    ),
    "allowed_events": list_setting(
        bounds.check_name, kind="names", meaning="events that the handler `event` may pass on"
    ),
    "allowed_commands": list_setting(
        bounds.check_name, kind="names", meaning="commands that the handler `command` may call"
    ),
    "signing": choice_setting(SigningMode, meaning="whether jobs are signed and verified"),
    "signing_key": Setting(
        check=check_secret,
        kind="secrets with commas",
        meaning="the first one signs, all of them verify",
    ),
    "signing_key_file": Setting(check=check_path, kind="path", meaning="a file of keys, if there is no `signing_key`"),
    "token": Setting(
        check=check_secret, kind="secret", meaning="the bearer token for a store that is an `https://` service"
    ),
    "artifacts": Setting(
        check=check_path, kind="path", meaning="a folder for artifacts, shared by all processes of the HTTP service"
    ),
    **{f"{SERVE}_{name}": setting for name, setting in SERVE_SETTINGS.items()},
    **{f"{WEBHOOKS}_{name}": setting for name, setting in WEBHOOK_SETTINGS.items()},
}
REMOVED = {  # what says it instead, for those who still have the setting
    "store": 'url = "store:NAME"',
    "queue": "a queue in the job: --queue, queue= of a handler or a request, or queue in a schedule",
    "token_file": 'url = "https://HOST?token_file=FILE"',
    "serve_algorithms": "no value: every asymmetric algorithm that fits a published key is accepted",
    "serve_min_lease": "no value: it is 1s",
    "serve_artifact_task_bytes": "serve_artifact_max_bytes: an attempt may upload four times as much",
    "serve_artifact_task_count": "no value: it is 32",
    "serve_artifact_space_count": "serve_artifact_space_bytes: the number is 1000000",
    "webhooks_max_attempts": "no value: it is 10",
}
SECRETS = ("signing_key", "token", f"{SERVE}_client_secret", f"{WEBHOOKS}_secret")
PATHS = (  # in a file: relative to its folder
    "signing_key_file",
    "artifacts",
    f"{SERVE}_tokens_file",
    f"{SERVE}_ca_file",
    f"{WEBHOOKS}_secrets_file",
    f"{WEBHOOKS}_ca_file",
)
NAMES = tuple(SETTINGS)

TYPE_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "an array of texts"}
