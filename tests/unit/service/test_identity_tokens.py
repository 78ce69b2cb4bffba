"""Tokens of an identity service: what others make up neither removes a known token nor delays it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs

import pytest

from holdfast.service.auth import introspection
from holdfast.service.auth.introspection import ACTIVE_SECONDS, REFUSED_SECONDS, IdentityTokens
from holdfast.service.auth.principal import AuthUnavailable, ClaimRules, TokenRefused

KNOWN = "known"
TIMEOUT_SECONDS = 60


class Identity:
    """An identity service that knows some tokens, and hangs for others until it may answer."""

    def __init__(self) -> None:
        self.active = {KNOWN}
        self.works: bool | None = None
        self.is_away = False
        self.asked: list[str] = []
        self.hangs = False

    async def fetch(self, method: str, *, headers: object, body: bytes) -> dict[str, object]:
        del method, headers
        [token] = parse_qs(body.decode())["token"]
        self.asked.append(token)
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.is_away:
            raise AuthUnavailable("away")
        return {"active": token in self.active, "sub": token}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run(check: Callable[[Identity, Identity, Clock, IdentityTokens], object]) -> None:
    """Run a check with the questions about new tokens, and those about known ones."""
    new, known, clock = Identity(), Identity(), Clock()

    async def main() -> None:
        tokens = IdentityTokens(
            new,  # type: ignore[arg-type]
            known,  # type: ignore[arg-type]
            ClaimRules(space="main"),
            check_seconds=0.0,
            client_id=None,
            client_secret=None,
            issuer=None,
            audience=None,
            now=clock,
        )
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await check(new, known, clock, tokens)

    asyncio.run(main())


async def authenticates(tokens: IdentityTokens, token: str) -> bool:
    try:
        return (await tokens.authenticate(token)).subject == token
    except TokenRefused:
        return False


def test_a_known_token_stays_known_whatever_tokens_others_make_up(monkeypatch):
    monkeypatch.setattr(introspection, "MAX_CACHED_TOKENS", 3)

    async def check(new, known, clock, tokens):
        assert await authenticates(tokens, KNOWN)
        for number in range(5):
            assert not await authenticates(tokens, f"random-{number}")
        assert await authenticates(tokens, KNOWN)
        assert new.asked.count(KNOWN) == 1
        assert known.asked == []

    run(check)


def test_a_known_token_is_asked_for_again_while_unknown_ones_wait():
    async def check(new, known, clock, tokens):
        assert await authenticates(tokens, KNOWN)
        new.hangs = True
        waiting = [asyncio.ensure_future(tokens.authenticate(f"random-{number}")) for number in range(200)]
        await asyncio.sleep(0)
        clock.now += ACTIVE_SECONDS
        assert await authenticates(tokens, KNOWN)
        assert known.asked == [KNOWN]
        known.is_away = True
        clock.now += ACTIVE_SECONDS
        with pytest.raises(AuthUnavailable):
            await tokens.authenticate(KNOWN)
        known.is_away = False
        clock.now += 1
        assert await authenticates(tokens, KNOWN)  # an outage of the identity service does not make it unknown
        for future in waiting:
            future.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    run(check)


def test_a_token_that_was_withdrawn_is_not_known_any_more():
    async def check(new, known, clock, tokens):
        assert await authenticates(tokens, KNOWN)
        known.active.clear()
        new.active.clear()
        clock.now += ACTIVE_SECONDS
        assert not await authenticates(tokens, KNOWN)
        clock.now += REFUSED_SECONDS
        assert not await authenticates(tokens, KNOWN)
        assert (new.asked, known.asked) == ([KNOWN, KNOWN], [KNOWN])

    run(check)
