"""How the settings of the HTTP service are read, checked and documented: the table ``[serve]`` of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration, lease
from holdfast.net.urls import parse_pattern, parse_url
from holdfast.settings.serve import AuthMode
from holdfast.settings.setting import (
    Setting,
    check_path,
    check_secret,
    duration_setting,
    integer_or_text,
    list_setting,
)

MAX_ARTIFACT_BYTES = 1 << 50
SERVE = "serve"  # the table; elsewhere its settings have this word and an underscore before their names


def _issuer_url(name: str, value: str) -> str:
    parse_url(value, field=name)
    parse_pattern(name, value)  # a request to it must match a pattern: no query
    return value


def _base_url(name: str, value: str) -> str:
    parse_url(value, field=name)
    return value.rstrip("/")


def _text(meaning: str, option: str = "") -> Setting:
    return Setting(check=bounds.check_text, kind="text", meaning=meaning, option=option)


def _whole(least: int, most: int = bounds.MAX_COUNT, *, meaning: str) -> Setting:
    return Setting(
        check=lambda name, value: bounds.check_integer(name, value, least=least, most=most),
        toml_type=int,
        from_text=integer_or_text,
        kind=f"number from {least}",
        meaning=meaning,
    )


def _choices(known: tuple[str, ...], kind: Callable[[str], Any] = str, *, meaning: str, option: str = "") -> Setting:
    """Return a setting with several texts of a closed set."""

    def check_one(name: str, value: str) -> None:
        if value not in known:
            raise InvalidInput(name, wanted=f"some of {', '.join(known)}", got=value)

    texts = list_setting(check_one, kind=", ".join(f"`{one}`" for one in known), meaning=meaning, option=option)

    def check_all(name: str, values: list[object]) -> tuple[Any, ...]:
        if not values:
            raise InvalidInput(name, wanted=f"some of {', '.join(known)}", got="none")
        checked: Any = texts.check(name, values)
        return tuple(map(kind, checked))

    return replace(texts, check=check_all)


SERVE_SETTINGS: dict[str, Setting] = {
    "bind": _text("where the service listens", option="serve --bind"),
    "public_url": Setting(check=_base_url, kind="URL", meaning="of the service, for its clients"),
    "auth": _choices(tuple(AuthMode), AuthMode, meaning="who checks tokens", option="serve --auth"),
    "tokens_file": Setting(check=check_path, kind="path", meaning="the tokens of `static`"),
    "jwks_url": Setting(check=_issuer_url, kind="URL", meaning="where the issuer publishes its keys"),
    "issuer": _text("the exact `iss` of tokens"),
    "audience": _text("must be an `aud` of tokens"),
    "introspection_url": Setting(check=_issuer_url, kind="URL", meaning="the endpoint of `identity`"),
    "client_id": _text("of the service, at that endpoint"),
    "client_secret": Setting(check=check_secret, kind="secret", meaning="of the service, at that endpoint"),
    "ca_file": Setting(
        check=check_path,
        kind="path",
        meaning="authorities of the issuer's certificate (PEM), instead of those of the system",
    ),
    "space_claim": _text("the claim that names the space; none: the setting `space`"),
    "scope_prefix": _text("before the names of scopes in tokens"),
    "lease": duration_setting(lease.MIN_LEASE, meaning="the lease of a claim that does not say"),
    "max_lease": duration_setting(lease.MIN_LEASE, meaning="the longest lease of a claim"),
    "max_wait": duration_setting(0, meaning="the longest wait of a request"),
    "max_body_bytes": _whole(1 << 10, bounds.MAX_STORED_PAYLOAD_BYTES, meaning="the largest body of a request"),
    "artifact_max_bytes": _whole(1, MAX_ARTIFACT_BYTES, meaning="the largest artifact"),
    "artifact_space_bytes": _whole(1, MAX_ARTIFACT_BYTES, meaning="the most that the artifacts of a space take"),
    "max_requests": _whole(1, meaning="requests at the same time, in one process"),
    "rate": Setting(
        check=duration.parse_rate,
        kind="rate",
        meaning="requests of one token and scope, in one process, such as `100/s`",
    ),
    "threads": _whole(1, 256, meaning="calls to the store at the same time"),
}
