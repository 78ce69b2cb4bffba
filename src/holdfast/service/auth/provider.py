"""``Provider``: checks a token. ``Authenticator`` asks the configured providers in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.service.auth.principal import AuthUnavailable, Principal, Scope, TokenRefused
from holdfast.service.problems import OUTAGE_SECONDS, Code, Problem

MAX_TOKEN_CHARACTERS = 8_192
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="holdfast"'}


class Provider(Protocol):
    """Checks tokens of one kind."""

    async def authenticate(self, token: str) -> Principal:
        """Return who calls. Raises ``TokenRefused`` or ``AuthUnavailable``."""
        ...


class Authenticator:
    """Returns the principal of a request. Without providers every request is from ``anonymous``, an operator."""

    def __init__(self, providers: Sequence[Provider], *, space: str) -> None:
        self._providers = providers
        self.anonymous = Principal(
            subject="anonymous", space=space, scopes=frozenset(Scope), event_types=None, is_admin=True
        )

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self._providers

    async def authenticate(self, headers: Mapping[str, str], *, count: int) -> Principal:
        """Return who calls; ``count`` is the number of ``Authorization`` headers. Raises ``Problem``."""
        if self.is_open:
            return self.anonymous
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if count != 1 or scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARACTERS:
            raise Problem(Code.UNAUTHENTICATED, "wanted one header Authorization: Bearer TOKEN", headers=CHALLENGE)
        is_unavailable = False
        for provider in self._providers:
            try:
                return await provider.authenticate(token)
            except TokenRefused:
                continue
            except AuthUnavailable:
                is_unavailable = True
        if is_unavailable:
            raise Problem(Code.AUTH_UNAVAILABLE, retry_after=OUTAGE_SECONDS)
        raise Problem(Code.UNAUTHENTICATED, "the token was refused", headers=CHALLENGE)
