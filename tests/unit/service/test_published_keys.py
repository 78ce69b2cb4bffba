"""The keys of an issuer: when they are fetched again, and how long they are used while the issuer is away."""

from __future__ import annotations

import asyncio
import json

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.service.auth.jwks import COOLDOWN_SECONDS, MAX_STALE_SECONDS, REFRESH_SECONDS, PublishedKeys
from holdfast.service.auth.principal import AuthUnavailable


class Issuer:
    """Publishes keys by their ids, unless it is away."""

    def __init__(self, *kids: str) -> None:
        self.kids = list(kids)
        self.is_away = False
        self.fetches = 0
        self._key = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key()))

    async def fetch(self) -> dict[str, object]:
        self.fetches += 1
        if self.is_away:
            raise AuthUnavailable("away")
        return {"keys": [{**self._key, "kid": kid} for kid in self.kids]}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def find(keys: PublishedKeys, kid: str) -> bool:
    return "ES256" in asyncio.run(keys.find(kid))


def test_a_new_key_is_found_once_the_cooldown_is_over():
    issuer, clock = Issuer("a"), Clock()
    keys = PublishedKeys(issuer, clock)
    assert find(keys, "a")
    issuer.kids.append("b")
    assert not find(keys, "b")
    clock.now += COOLDOWN_SECONDS
    assert find(keys, "b")
    assert issuer.fetches == 2


def test_a_key_that_was_withdrawn_is_refused_after_the_next_refresh():
    issuer, clock = Issuer("a"), Clock()
    keys = PublishedKeys(issuer, clock)
    assert find(keys, "a")
    issuer.kids = []
    clock.now += REFRESH_SECONDS
    assert find(keys, "a")
    clock.now += 1
    assert not find(keys, "a")


def test_keys_are_used_for_an_hour_while_the_issuer_is_away_and_then_nobody_gets_in():
    issuer, clock = Issuer("a"), Clock()
    keys = PublishedKeys(issuer, clock)
    assert find(keys, "a")
    issuer.is_away = True
    clock.now += MAX_STALE_SECONDS
    assert find(keys, "a")
    clock.now += COOLDOWN_SECONDS
    with pytest.raises(AuthUnavailable):
        find(keys, "a")
    issuer.is_away = False
    clock.now += COOLDOWN_SECONDS
    assert find(keys, "a")


def test_without_keys_nobody_gets_in():
    issuer, clock = Issuer(), Clock()
    issuer.is_away = True
    for _ in range(3):
        with pytest.raises(AuthUnavailable):
            find(PublishedKeys(issuer, clock), "a")


def test_a_probe_fetches_keys_only_if_there_are_none():
    issuer, clock = Issuer("a"), Clock()
    keys = PublishedKeys(issuer, clock)
    for _ in range(3):
        assert asyncio.run(keys.are_usable())
        clock.now += COOLDOWN_SECONDS
    assert issuer.fetches == 1
    issuer.is_away = True
    clock.now += MAX_STALE_SECONDS
    assert not asyncio.run(keys.are_usable())
