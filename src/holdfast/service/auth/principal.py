"""``Principal``: who calls, in which space, and what the call may do. Read from claims with strict types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import InvalidInput
from holdfast.model import bounds

MAX_SCOPES = 256
MAX_EVENT_TYPES = 1024
ALL_COMMANDS = "*"
ADMIN = "admin"  # the role of operators
LEEWAY_SECONDS = 30.0  # that the clocks of issuer and service may differ


class Scope(StrEnum):
    """What a token allows."""

    ENQUEUE = "enqueue"
    READ = "read"
    CANCEL = "cancel"
    CLAIM = "claim"
    HEARTBEAT = "heartbeat"
    RESULT = "result"
    NACK = "nack"
    ABANDON = "abandon"
    SUBSCRIBE = "subscribe"
    METRICS = "metrics"
    DRIVER = "driver"  # all that producers and workers do through ``connect("https://...")``
    ADMIN = "admin"  # of the role ``admin``; not a scope of a token


class TokenRefused(Exception):
    """The token is not valid. The text is for the log: a client learns only that the token was refused."""


class AuthUnavailable(Exception):
    """The provider cannot decide now. No request is allowed meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller of one request."""

    subject: str
    space: str
    scopes: frozenset[Scope]
    event_types: frozenset[str] | None  # the commands that it may claim; None: all
    worker_group: str | None = None  # whose notifications it may get
    is_admin: bool = False

    def may(self, scope: Scope) -> bool:
        """Whether the call is allowed. The role of operators allows every call."""
        return self.is_admin or scope in self.scopes

    def claimable(self, commands: list[str] | None) -> list[str] | None:
        """Return the commands that a claim looks for; None is all of them, and an empty list is none."""
        if self.event_types is None:
            return None if commands is None else list(dict.fromkeys(commands))
        return sorted(self.event_types if commands is None else self.event_types & set(commands))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRules:
    """How claims of a token become a principal."""

    space: str  # of all tokens, unless ``space_claim`` says otherwise
    space_claim: str | None = None
    scope_prefix: str = ""

    def principal_of(self, claims: Mapping[str, object]) -> Principal:
        """Return the principal. Raises ``TokenRefused`` for a claim that is missing or has another type.

        A token without ``eventTypes`` may claim no command.
        """
        try:
            subject = bounds.check_text("sub", claims.get("sub"))
            space = self.space
            if self.space_claim is not None:
                space = bounds.check_name(self.space_claim, claims.get(self.space_claim))
            event_types = commands_of("eventTypes", _texts("eventTypes", claims.get("eventTypes", []), MAX_EVENT_TYPES))
            group = claims.get("workerGroup")
            if group is not None:
                bounds.check_text("workerGroup", group)
        except InvalidInput as error:
            raise TokenRefused(f"claim {error.field}: wanted {error.wanted}") from error
        return Principal(
            subject=subject,
            space=space,
            scopes=self._scopes(claims),
            event_types=event_types,
            worker_group=None if group is None else str(group),
            is_admin=ADMIN in _texts("roles", claims.get("roles", []), MAX_SCOPES),
        )

    def _scopes(self, claims: Mapping[str, object]) -> frozenset[Scope]:
        """Read ``scope`` (RFC 8693: one text with spaces) and ``scopes`` (a list). Unknown ones are left out."""
        scope = claims.get("scope", "")
        if not isinstance(scope, str):
            raise TokenRefused("claim scope: wanted a text")
        names = {*scope.split(" "), *_texts("scopes", claims.get("scopes", []), MAX_SCOPES)}
        known = {f"{self.scope_prefix}{one}": one for one in Scope if one is not Scope.ADMIN}
        return frozenset(known[name] for name in names if name in known)


def commands_of(name: str, values: Iterable[str]) -> frozenset[str] | None:
    """Return the commands that a list allows; None, which is all, if ``*`` is among them. Raises ``InvalidInput``."""
    names = frozenset(value if value == ALL_COMMANDS else bounds.check_name(name, value) for value in values)
    return None if ALL_COMMANDS in names else names


def _texts(name: str, value: object, most: int) -> list[str]:
    if not isinstance(value, list) or len(value) > most or not all(isinstance(one, str) for one in value):
        raise TokenRefused(f"claim {name}: wanted a list of at most {most} texts")
    return value


def check_times(claims: Mapping[str, object], now: float, *, exp_leeway_seconds: float, exp_required: bool) -> None:
    """Check ``exp``, ``nbf`` and ``iat``. Raises ``TokenRefused``; a number in quotes and a bool are no numbers."""
    for name in ("exp", "nbf", "iat"):
        value = claims.get(name)
        if value is None and name not in claims and not (name == "exp" and exp_required):
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1e12 < value < 1e12:
            raise TokenRefused(f"claim {name}: wanted a number of seconds")
        if name == "exp" and now >= value + exp_leeway_seconds:
            raise TokenRefused("the token has expired")
        if name != "exp" and now < value - LEEWAY_SECONDS:
            raise TokenRefused(f"the token is not valid yet: {name} is in the future")


def check_issuer(claims: Mapping[str, object], *, issuer: str | None, audience: str | None) -> None:
    """Check ``iss`` and ``aud`` exactly, those that are configured. Raises ``TokenRefused``."""
    if issuer is not None and claims.get("iss") != issuer:
        raise TokenRefused("claim iss: wanted the issuer of the settings")
    if audience is not None:
        given = claims.get("aud")
        audiences = _texts("aud", [given] if isinstance(given, str) else given, MAX_SCOPES)
        if audience not in audiences:
            raise TokenRefused("claim aud: wanted the audience of the settings")
