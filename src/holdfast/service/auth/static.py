"""Tokens in a file, for development and tests. The file is TOML.

[[tokens]]
token = "a-secret-of-at-least-16-characters"
subject = "worker-1"
scopes = ["claim", "heartbeat", "result", "nack", "abandon"]
event_types = ["mail.send"]   # without it: all commands
worker_group = "mailers"      # without it: any group
space = "main"                # without it: the space of the settings
admin = false
"""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.secret_file import read_secret_file
from holdfast.service.auth.issuer_request import Unchecked
from holdfast.service.auth.principal import Principal, Scope, TokenRefused, commands_of

MIN_TOKEN_CHARACTERS = 16


class _Entry(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    token: Annotated[str, msgspec.Meta(min_length=MIN_TOKEN_CHARACTERS)]
    subject: str
    scopes: list[Scope] = []
    event_types: list[str] | None = None
    worker_group: str | None = None
    space: str | None = None
    admin: bool = False


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    tokens: list[_Entry]


class StaticTokens:
    """The tokens of a file, read once. They are looked up by their hash: no comparison tells how long a match is."""

    def __init__(self, file: str, *, space: str) -> None:
        """Raise ``InvalidInput`` for a file that cannot be read."""
        data = read_secret_file(file, Path(file))
        try:
            entries = msgspec.convert(tomllib.loads(data.decode()), _File).tokens
        except (ValueError, msgspec.ValidationError) as error:  # also of TOML; no message has the value of a field
            raise InvalidInput(file, wanted="[[tokens]] in TOML", got=str(error)) from error
        self.unchecked = Unchecked()
        self._principals = {_digest(entry.token): _principal(entry, space) for entry in entries}
        if len(self._principals) < len(entries):
            raise InvalidInput(file, wanted="each token once", got="one token twice")

    async def authenticate(self, token: str) -> Principal:
        """Return the principal of a token of the file. Raises ``TokenRefused`` for any other one."""
        principal = self._principals.get(_digest(token))
        if principal is None:
            raise TokenRefused("the file has no such token")
        return principal

    async def check(self) -> bool:
        """Return True: tokens are compared with those of the file, which was read."""
        return True

    def close(self) -> None:
        """Do nothing: there are no threads."""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _principal(entry: _Entry, space: str) -> Principal:
    names = entry.event_types
    return Principal(
        subject=bounds.check_text("subject", entry.subject),
        space=bounds.check_name("space", entry.space or space),
        scopes=frozenset(entry.scopes) - {Scope.ADMIN},
        event_types=None if names is None else commands_of("event_types", names),
        worker_group=None if entry.worker_group is None else bounds.check_text("worker_group", entry.worker_group),
        is_admin=entry.admin,
    )
