"""JSON Web Tokens, verified with the public keys that their issuer publishes at one URL (JWKS).

What a token says about its own verification is not believed: ``jwk``, ``jku`` and ``x5u`` are ignored, ``alg`` must be
an asymmetric algorithm that fits the key, and ``kid`` only selects a published key. PyJWT verifies the
signature; the claims are checked here, because PyJWT accepts numbers in quotes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

import jwt
from jwt.algorithms import RSAAlgorithm

from holdfast.clock import SECOND, monotonic, wall_clock
from holdfast.service.auth.issuer_request import IssuerRequests, Unchecked
from holdfast.service.auth.principal import (
    LEEWAY_SECONDS,
    AuthUnavailable,
    ClaimRules,
    Principal,
    TokenRefused,
    check_issuer,
    check_times,
)
from holdfast.service.http.json_body import decode_strict

REFRESH_SECONDS = 600.0  # after which the keys are fetched again
COOLDOWN_SECONDS = 30.0  # between two fetches, whatever key ids tokens name
MAX_STALE_SECONDS = 3600.0  # for which keys are used while the issuer cannot be reached
MIN_RSA_BITS = 2048
MAX_KEYS = 100

_ALGORITHMS_OF_KEY = {
    "RSA": {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"},
    "EC": {"ES256", "ES384", "ES512"},
    "OKP": {"EdDSA"},
}
_ALGORITHMS = sorted(set().union(*_ALGORITHMS_OF_KEY.values()))
_ALGORITHM_OF_CURVE = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA", "Ed448": "EdDSA"}
_SIGNATURES = jwt.PyJWS()


class JwksTokens:
    """Verifies tokens of one issuer for one audience."""

    def __init__(
        self,
        requests: IssuerRequests,
        rules: ClaimRules,
        *,
        issuer: str,
        audience: str,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._requests = requests
        self.unchecked = Unchecked()
        self._keys = PublishedKeys(requests, now)
        self._rules = rules
        self._issuer = issuer
        self._audience = audience

    async def authenticate(self, token: str) -> Principal:
        """Return who calls, by a token that one of the published keys has signed."""
        kid, algorithm = _read_header(token)
        if self._keys.has(kid):
            keys = await self._keys.find(kid)
        else:
            with self.unchecked.waiting():
                keys = await self._keys.find(kid)
        key = keys.get(algorithm)
        if key is None:
            raise TokenRefused("no published key has this id and algorithm")
        try:
            verified = _SIGNATURES.decode_complete(token, key.key, algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise TokenRefused(str(error)) from error
        claims = _decode_claims(verified["payload"])
        check_times(claims, wall_clock() / SECOND, exp_leeway_seconds=LEEWAY_SECONDS, exp_required=True)
        check_issuer(claims, issuer=self._issuer, audience=self._audience)
        return self._rules.principal_of(claims)

    async def check(self) -> bool:
        """Return whether there are keys to check tokens with."""
        return await self._keys.are_usable()

    def close(self) -> None:
        """End the threads that fetch keys."""
        self._requests.close()


def _read_header(token: str) -> tuple[str, str]:
    """Return the key id and the algorithm. Raises ``TokenRefused``."""
    if not token.isascii() or token.count(".") != 2:
        raise TokenRefused("no JSON Web Token")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
        raise TokenRefused(f"the header cannot be read: {error}") from error
    kid, algorithm = header.get("kid"), header.get("alg")
    if not isinstance(kid, str) or not isinstance(algorithm, str) or not kid:
        raise TokenRefused("wanted a header with kid and alg")
    if "crit" in header or "b64" in header:
        raise TokenRefused("the header has a critical extension, and none is known")
    return kid, algorithm


def _decode_claims(payload: bytes) -> dict[str, object]:
    try:
        claims = decode_strict(payload)
    except ValueError as error:
        raise TokenRefused("the claims are not strict JSON") from error
    if not isinstance(claims, dict):
        raise TokenRefused("wanted claims in an object")
    return claims


class PublishedKeys:
    """The keys of an issuer, by key id and algorithm. Fetched when they are needed, and at most every 30 seconds."""

    def __init__(self, requests: IssuerRequests, now: Callable[[], float]) -> None:
        self._requests = requests
        self._now = now
        self._keys: dict[str, dict[str, jwt.PyJWK]] = {}
        self._fetched_at: float | None = None  # of the keys
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    def has(self, kid: str) -> bool:
        """Whether the last keys that were fetched have this id."""
        return kid in self._keys

    async def are_usable(self) -> bool:
        """Whether there are keys. Fetches them if there are none."""
        if self._age() > MAX_STALE_SECONDS:
            with suppress(AuthUnavailable):
                await self.find("")
        return self._age() <= MAX_STALE_SECONDS

    async def find(self, kid: str) -> Mapping[str, jwt.PyJWK]:
        """Return the key with this id, by algorithm; empty if there is none. Raises ``AuthUnavailable``."""
        if kid not in self._keys or self._age() > REFRESH_SECONDS:
            async with self._lock:
                if (kid not in self._keys or self._age() > REFRESH_SECONDS) and self._may_fetch():
                    await self._fetch()
        if self._age() > MAX_STALE_SECONDS:
            raise AuthUnavailable("there are no keys of the issuer")
        return self._keys.get(kid, {})

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._now() - self._fetched_at

    def _may_fetch(self) -> bool:
        return self._tried_at is None or self._now() - self._tried_at >= COOLDOWN_SECONDS

    async def _fetch(self) -> None:
        """Fetch the keys. If that fails, the old ones stay for a while."""
        self._tried_at = self._now()
        try:
            published = await self._requests.fetch()
        except AuthUnavailable:
            if self._age() > MAX_STALE_SECONDS:
                raise
            return
        self._keys = _read_keys(published)
        self._fetched_at = self._now()


def _read_keys(published: Mapping[str, object]) -> dict[str, dict[str, jwt.PyJWK]]:
    """Return the usable keys. Keys that are not asymmetric, too short, for encryption, or that share an id, are not."""
    listed = published.get("keys")
    found: dict[str, dict[str, jwt.PyJWK]] = {}
    seen: set[str] = set()
    for entry in listed[:MAX_KEYS] if isinstance(listed, list) else []:
        kid = entry.get("kid") if isinstance(entry, dict) else None
        if not isinstance(kid, str):
            continue
        if kid in seen:
            found.pop(kid, None)
            continue
        seen.add(kid)
        found[kid] = {algorithm: key for algorithm in _ALGORITHMS if (key := _read_key(entry, algorithm)) is not None}
    return found


def _read_key(entry: Mapping[str, object], algorithm: str) -> jwt.PyJWK | None:
    kind, curve = entry.get("kty"), entry.get("crv")
    if not isinstance(kind, str) or algorithm not in _ALGORITHMS_OF_KEY.get(kind, ()):
        return None
    if entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        return None
    if kind != "RSA" and (not isinstance(curve, str) or _ALGORITHM_OF_CURVE.get(curve) != algorithm):
        return None
    try:
        key = jwt.PyJWK(dict(entry), algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key.Algorithm, RSAAlgorithm) and key.key.key_size < MIN_RSA_BITS:
        return None
    return key
