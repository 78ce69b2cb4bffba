"""Tokens that an identity service knows: token introspection (RFC 7662), with a cache that fails closed.

An answer is kept for a short time, also the answer that a token is not active. While the identity service cannot be
reached, tokens without a kept answer are refused with 503.

A token that was active the last time is known. Known tokens have a cache and threads of their own: whatever tokens
others make up, a known one is not removed from the cache by them, and is asked for without waiting behind them.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from holdfast.clock import SECOND, monotonic, wall_clock
from holdfast.model.secret import Secret
from holdfast.service.auth.issuer_request import IssuerRequests, Unchecked
from holdfast.service.auth.principal import (
    AuthUnavailable,
    ClaimRules,
    Principal,
    TokenRefused,
    check_issuer,
    check_times,
)

ACTIVE_SECONDS = 60.0  # for which an active token is not asked for again: so late a revocation takes effect
REFUSED_SECONDS = 10.0
FAILED_SECONDS = 1.0  # for which a failure is not tried again with the same token
MAX_CACHED_TOKENS = 10_000  # of each kind
PROBE_TOKEN = "holdfast-probe"  # noqa: S105 - no secret: a question whose answer does not matter

T = TypeVar("T")


class _Active(NamedTuple):
    until: float  # not to be asked for before
    expires_at: float  # the ``exp`` of the token, in seconds of the wall clock
    principal: Principal


class _Failed(NamedTuple):
    until: float
    error: TokenRefused | AuthUnavailable


class IdentityTokens:
    """Asks the identity service about a token."""

    def __init__(
        self,
        requests: IssuerRequests,
        known_requests: IssuerRequests,
        rules: ClaimRules,
        *,
        check_seconds: float,
        client_id: str | None,
        client_secret: Secret | None,
        issuer: str | None,
        audience: str | None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._requests = requests
        self._known_requests = known_requests
        self._check_seconds = check_seconds  # between two probes
        self._checked_at = -math.inf
        self._rules = rules
        self._issuer = issuer
        self._audience = audience
        self._now = now
        self._headers = {"content-type": "application/x-www-form-urlencoded"}
        if client_id is not None:
            secret = client_secret.reveal() if client_secret is not None else ""
            pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
            self._headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        self._known: OrderedDict[bytes, _Active] = OrderedDict()  # stays when its time is over
        self._failed: OrderedDict[bytes, _Failed] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[_Active | _Failed]] = {}
        self.unchecked = Unchecked()

    async def authenticate(self, token: str) -> Principal:
        """Return who calls, as the identity service says, now or a short time ago."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()  # the cache has no tokens
        kept: _Active | _Failed | None = self._known.get(digest)
        is_known = kept is not None
        if kept is None or self._now() >= kept.until:
            kept = self._failed.get(digest)
        if kept is None or self._now() >= kept.until:
            with contextlib.nullcontext() if is_known else self.unchecked.waiting():
                kept = await self._ask_once(token, digest, is_known=is_known)
        if isinstance(kept, _Failed):
            raise type(kept.error)(str(kept.error))
        if wall_clock() / SECOND >= kept.expires_at:
            raise TokenRefused("the token has expired")
        return kept.principal

    async def check(self) -> bool:
        """Return whether the identity service answers; it is asked again now and then while it does not."""
        if not self._requests.works and self._now() - self._checked_at >= self._check_seconds:
            self._checked_at = self._now()
            with contextlib.suppress(AuthUnavailable):
                await self._requests.fetch("POST", headers=self._headers, body=_form(PROBE_TOKEN))
        return bool(self._requests.works)

    def close(self) -> None:
        """End the threads that ask the identity service."""
        self._requests.close()
        self._known_requests.close()

    async def _ask_once(self, token: str, digest: bytes, *, is_known: bool) -> _Active | _Failed:
        """Return what the identity service says. Requests that come together ask once."""
        if digest not in self._asking:
            requests = self._known_requests if is_known else self._requests
            self._asking[digest] = asyncio.create_task(self._ask(token, requests))
            self._asking[digest].add_done_callback(lambda _: self._asking.pop(digest, None))
        kept = await asyncio.shield(self._asking[digest])
        if isinstance(kept, _Active):
            _keep(self._known, digest, kept)
        else:
            _keep(self._failed, digest, kept)
            if isinstance(kept.error, TokenRefused):
                self._known.pop(digest, None)
        return kept

    async def _ask(self, token: str, requests: IssuerRequests) -> _Active | _Failed:
        now = self._now()
        try:
            claims = await requests.fetch("POST", headers=self._headers, body=_form(token))
        except AuthUnavailable as error:
            return _Failed(now + FAILED_SECONDS, error)
        try:
            _check_active(claims)
            check_times(claims, wall_clock() / SECOND, exp_leeway_seconds=0.0, exp_required=False)
            check_issuer(claims, issuer=self._issuer, audience=self._audience)
            principal = self._rules.principal_of(claims)
        except TokenRefused as error:
            return _Failed(now + REFUSED_SECONDS, error)
        expires_at = claims.get("exp", float("inf"))
        assert isinstance(expires_at, int | float)
        return _Active(now + ACTIVE_SECONDS, expires_at, principal)


def _keep(cache: OrderedDict[bytes, T], digest: bytes, kept: T) -> None:
    cache[digest] = kept
    cache.move_to_end(digest)
    while len(cache) > MAX_CACHED_TOKENS:
        cache.popitem(last=False)


def _form(token: str) -> bytes:
    return urlencode({"token": token, "token_type_hint": "access_token"}, errors="surrogatepass").encode()


def _check_active(claims: Mapping[str, object]) -> None:
    if claims.get("active") is not True:
        raise TokenRefused("the token is not active")
