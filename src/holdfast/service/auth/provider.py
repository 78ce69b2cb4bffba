"""``Provider``: checks a token. ``Authenticator`` asks the configured providers in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Protocol

from holdfast.log import events
from holdfast.log.failures import Repeats
from holdfast.log.records import log_event
from holdfast.service.auth.issuer_request import LOG_SECONDS, Unchecked
from holdfast.service.auth.principal import AuthUnavailable, Principal, Scope, TokenRefused
from holdfast.service.problems import OUTAGE_SECONDS, Code, Problem
from holdfast.settings.serve import AuthMode

MAX_TOKEN_CHARACTERS = 8_192
MAX_REASONS = 32  # that are logged by themselves: some contain text of the token's header
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="holdfast"'}


class TokenFailure(StrEnum):
    """Why a request has no principal."""

    MISSING = "missing"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class Provider(Protocol):
    """Checks tokens of one kind."""

    unchecked: Unchecked

    async def authenticate(self, token: str) -> Principal:
        """Return who calls. Raises ``TokenRefused`` or ``AuthUnavailable``."""
        ...

    async def check(self) -> bool:
        """Return whether tokens can be checked. The issuer is asked if it has not answered yet, or has failed."""
        ...

    def close(self) -> None:
        """End the threads."""
        ...


class Authenticator:
    """Returns the principal of a request. Without providers every request is from ``anonymous``, an operator."""

    def __init__(
        self, providers: Mapping[AuthMode, Provider], *, space: str, on_failure: Callable[[TokenFailure], None]
    ) -> None:
        self._providers = providers
        self._on_failure = on_failure
        self._refusals: dict[str, Repeats] = {}  # by reason
        self.anonymous = Principal(
            subject="anonymous", space=space, scopes=frozenset(Scope), event_types=None, is_admin=True
        )

    @property
    def is_open(self) -> bool:
        """Whether no token is needed."""
        return not self._providers

    @property
    def unchecked(self) -> int:
        """The number of requests whose tokens an issuer is asked for."""
        return sum(provider.unchecked.count for provider in self._providers.values())

    async def authenticate(self, headers: Mapping[str, str], *, count: int) -> Principal:
        """Return who calls; ``count`` is the number of ``Authorization`` headers. Raises ``Problem``."""
        if self.is_open:
            return self.anonymous
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if count != 1 or scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN_CHARACTERS:
            raise self._refuse(TokenFailure.MISSING, "wanted one header Authorization: Bearer TOKEN")
        reasons = []
        is_unavailable = False
        for mode, provider in self._providers.items():
            try:
                return await provider.authenticate(token)
            except TokenRefused as error:
                reasons.append(f"{mode}: {error}")
            except AuthUnavailable:
                is_unavailable = True
        if is_unavailable:
            self._on_failure(TokenFailure.UNAVAILABLE)
            raise Problem(Code.AUTH_UNAVAILABLE, retry_after=OUTAGE_SECONDS)
        raise self._refuse(TokenFailure.REFUSED, "; ".join(reasons))

    def _refuse(self, failure: TokenFailure, reason: str) -> Problem:
        """Return the problem of a request, and log its reason once a minute: a client learns no more than it must."""
        self._on_failure(failure)
        if reason not in self._refusals and len(self._refusals) >= MAX_REASONS:
            reason = "other"
        if (refused := self._refusals.setdefault(reason, Repeats(LOG_SECONDS)).add()) is not None:
            log_event(events.HTTP_TOKEN_REFUSED, reason=reason, refused=refused)
        detail = reason if failure is TokenFailure.MISSING else "the token was refused"
        return Problem(Code.UNAUTHENTICATED, detail, headers=CHALLENGE)

    async def failing(self, seconds: float) -> list[AuthMode]:
        """Return the providers that cannot check tokens, or do not know it after so many seconds."""

        async def check(provider: Provider) -> bool:
            try:
                async with asyncio.timeout(seconds):
                    return await provider.check()
            except TimeoutError:
                return False

        checks = await asyncio.gather(*map(check, self._providers.values()))
        return [mode for mode, works in zip(self._providers, checks, strict=True) if not works]

    def can_authenticate(self, failing: list[AuthMode]) -> bool:
        """Whether some requests can be authenticated although these providers fail."""
        return self.is_open or len(failing) < len(self._providers)

    def close(self) -> None:
        """End the threads."""
        for provider in self._providers.values():
            provider.close()
