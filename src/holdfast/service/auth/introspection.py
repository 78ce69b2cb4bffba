"""Tokens that an identity service knows: token introspection (RFC 7662), with a cache that fails closed.

An answer is kept for a short time, also the answer that a token is not active. While the identity service cannot be
reached, tokens without a kept answer are refused with 503.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

from holdfast.clock import SECOND, monotonic, wall_clock
from holdfast.model.secret import Secret
from holdfast.service.auth.issuer_request import IssuerRequests
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
MAX_CACHED_TOKENS = 10_000


class _Kept(NamedTuple):
    until: float
    expires_at: float  # the ``exp`` of the token, in seconds of the wall clock
    answer: Principal | Exception


class IdentityTokens:
    """Asks the identity service about a token."""

    def __init__(
        self,
        requests: IssuerRequests,
        rules: ClaimRules,
        *,
        client_id: str | None,
        client_secret: Secret | None,
        issuer: str | None,
        audience: str | None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._requests = requests
        self._rules = rules
        self._issuer = issuer
        self._audience = audience
        self._now = now
        self._headers = {"content-type": "application/x-www-form-urlencoded"}
        if client_id is not None:
            secret = client_secret.reveal() if client_secret is not None else ""
            pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}".encode()
            self._headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[_Kept]] = {}

    async def authenticate(self, token: str) -> Principal:
        """See ``Provider.authenticate``."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()  # the cache has no tokens
        kept = self._kept.get(digest)
        if kept is None or self._now() >= kept.until:
            if digest not in self._asking:  # requests that come together ask once
                self._asking[digest] = asyncio.create_task(self._ask(token))
                self._asking[digest].add_done_callback(lambda _: self._asking.pop(digest, None))
            kept = await asyncio.shield(self._asking[digest])
            self._keep(digest, kept)
        if isinstance(kept.answer, Exception):
            raise type(kept.answer)(str(kept.answer))
        if wall_clock() / SECOND >= kept.expires_at:
            raise TokenRefused("the token has expired")
        return kept.answer

    async def _ask(self, token: str) -> _Kept:
        now = self._now()
        form = urlencode({"token": token, "token_type_hint": "access_token"}, errors="surrogatepass").encode()
        try:
            claims = await self._requests.fetch("POST", headers=self._headers, body=form)
        except AuthUnavailable as error:
            return _Kept(now + FAILED_SECONDS, 0.0, error)
        try:
            _check_active(claims)
            check_times(claims, wall_clock() / SECOND, leeway_seconds=0.0, exp_required=False)
            check_issuer(claims, issuer=self._issuer, audience=self._audience)
            principal = self._rules.principal_of(claims)
        except TokenRefused as error:
            return _Kept(now + REFUSED_SECONDS, 0.0, error)
        expires_at = claims.get("exp", float("inf"))
        assert isinstance(expires_at, int | float)
        return _Kept(now + ACTIVE_SECONDS, expires_at, principal)

    def _keep(self, digest: bytes, kept: _Kept) -> None:
        self._kept[digest] = kept
        self._kept.move_to_end(digest)
        while len(self._kept) > MAX_CACHED_TOKENS:
            self._kept.popitem(last=False)


def _check_active(claims: Mapping[str, object]) -> None:
    if claims.get("active") is not True:
        raise TokenRefused("the token is not active")
