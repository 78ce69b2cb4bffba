"""JSON Web Tokens: valid ones are accepted, and every forgery gets the same 401 and changes nothing."""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from holdfast.settings.serve import AuthMode
from tests.service.http_service import RunningService, running_service, sqlite_url
from tests.service.issuer import (
    AUDIENCE,
    EC_KEY,
    ED_KEY,
    ISSUER,
    KEYS,
    OTHER_EC_KEY,
    RSA_KEY,
    Issuer,
    claims,
    encode_part,
    issuer,
    jwk_of,
    sign,
)

PEM = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
SHORT_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)


@pytest.fixture(scope="module")
def keys() -> Iterator[Issuer]:
    with issuer() as running:
        oct_key = {"kty": "oct", "kid": "oct", "alg": "HS256", "k": encode_part(b"a secret of thirty-two bytes 123")}
        running.keys += [
            oct_key,
            jwk_of(SHORT_KEY, "RS256", kid="short"),
            jwk_of(EC_KEY, "ES256", kid="encrypts", use="enc"),
            jwk_of(EC_KEY, "ES256", kid="twice"),
            jwk_of(OTHER_EC_KEY, "ES256", kid="twice"),
            {"kid": "broken", "kty": "EC", "crv": "P-256", "x": "?", "y": 1},
            {"kid": 7},
        ]
        yield running


@pytest.fixture(scope="module")
def jwks_service(keys, tmp_path_factory) -> Iterator[RunningService]:
    with running_service(
        sqlite_url(tmp_path_factory.mktemp("jwks")),
        auth=(AuthMode.JWKS,),
        jwks_url=keys.url,
        issuer=ISSUER,
        audience=AUDIENCE,
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA_KEY, "RS256", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed")]
)
def test_a_token_of_each_kind_is_accepted(jwks_service, key, algorithm, kid):
    token = sign(claims(aud=["other", AUDIENCE]), key, algorithm, kid)
    assert jwks_service.post("/v1/tasks/claim", token=token).status_code == 204


def alter(token: str, part: int, change) -> str:
    parts = token.split(".")
    parts[part] = change(parts[part])
    return ".".join(parts)


def bad_claims() -> dict[str, dict[str, object]]:
    soon = int(time.time()) + 600
    return {
        "expired": claims(exp=int(time.time()) - 60),
        "no exp": claims(exp=...),
        "exp is text": claims(exp=str(soon)),
        "exp is true": claims(exp=True),
        "exp is null": claims(exp=None),
        "exp is a list": claims(exp=[soon]),
        "exp is huge": claims(exp=10**30),
        "not yet": claims(nbf=soon),
        "nbf is text": claims(nbf="0"),
        "iat is text": claims(iat="0"),
        "other issuer": claims(iss="https://evil.test/"),
        "issuer without slash": claims(iss=ISSUER[:-1]),
        "issuer in a list": claims(iss=[ISSUER]),
        "no issuer": claims(iss=...),
        "other audience": claims(aud="other"),
        "audience in a text": claims(aud=f"{AUDIENCE},other"),
        "audience beginning": claims(aud=AUDIENCE[:-1]),
        "audience with a number": claims(aud=[AUDIENCE, 1]),
        "audience as object": claims(aud={AUDIENCE: 1}),
        "no audience": claims(aud=...),
        "no subject": claims(sub=...),
        "empty subject": claims(sub=""),
        "subject is a number": claims(sub=1),
        "subject with a newline": claims(sub="a\nb"),
        "long subject": claims(sub="x" * 300),
        "scope is a list": claims(scope=["claim"]),
        "scopes is a text": claims(scopes="claim"),
        "event types is a text": claims(eventTypes="mail.send"),
        "event types with a pattern": claims(eventTypes=["mail.*"]),
        "event types with a number": claims(eventTypes=[1]),
        "roles is a text": claims(roles="admin"),
        "roles is an object": claims(roles={"admin": True}),
    }


def with_mac(secret: bytes) -> str:
    """A token whose MAC a verifier accepts that takes the public key for a secret. PyJWT refuses to make it."""
    signed = f"{encode_part({'alg': 'HS256', 'kid': 'rsa'})}.{encode_part(claims())}"
    return f"{signed}.{encode_part(hmac.digest(secret, signed.encode(), 'sha256'))}"


def forgeries() -> dict[str, str]:
    valid = sign(claims())
    rs_jwk = next(key for key in KEYS if key["kid"] == "rsa")
    evil = jwk_of(OTHER_EC_KEY, "ES256", kid="evil")
    twice = json.dumps(claims()).replace('"sub"', '"sub": "admin", "sub"').encode()
    unsigned = encode_part(claims())
    return {
        "no algorithm": f"{encode_part({'alg': 'none', 'kid': 'ec'})}.{unsigned}.",
        "no algorithm, other case": f"{encode_part({'alg': 'nOnE', 'kid': 'ec'})}.{unsigned}.",
        "no algorithm, old signature": alter(valid, 0, lambda _: encode_part({"alg": "none", "kid": "ec"})),
        "public key as secret": with_mac(PEM),
        "published text as secret": with_mac(json.dumps(rs_jwk).encode()),
        "published secret": sign(claims(), b"a secret of thirty-two bytes 123", "HS256", "oct"),
        "another key": sign(claims(), OTHER_EC_KEY),
        "unknown key id": sign(claims(), OTHER_EC_KEY, kid="evil"),
        "no key id": sign(claims(), kid=None),
        "key id is a number": sign(claims(), kid=7),
        "key id is a list": sign(claims(), kid=["ec"]),
        "key id is a path": sign(claims(), kid="../../../dev/null"),
        "key id is SQL": sign(claims(), kid="' OR '1'='1"),
        "own key in the header": sign(claims(), OTHER_EC_KEY, kid="evil", jwk=evil),
        "own key under a known id": sign(claims(), OTHER_EC_KEY, kid="ec", jwk=evil),
        "own key at a URL": sign(claims(), OTHER_EC_KEY, kid="evil", jku="http://127.0.0.1:1/keys"),
        "own certificate": sign(claims(), OTHER_EC_KEY, kid="evil", x5u="http://127.0.0.1:1/", x5c=["AAAA"]),
        "algorithm of another key": sign(claims(), EC_KEY, "ES256", "rsa"),
        "algorithm that is not allowed": sign(claims(), RSA_KEY, "PS256", "rsa"),
        "short key": sign(claims(), SHORT_KEY, "RS256", "short"),
        "key for encryption": sign(claims(), kid="encrypts"),
        "id of two keys": sign(claims(), kid="twice"),
        "broken key": sign(claims(), kid="broken"),
        "critical extension": sign(claims(), crit=["exp"]),
        "unencoded payload": sign(claims(), b64=False, crit=["b64"]),
        "unencoded payload, not critical": sign(claims(), b64=False),
        "zero signature": alter(valid, 2, lambda _: encode_part(b"\0" * 64)),
        "no signature": alter(valid, 2, lambda _: ""),
        "short signature": alter(valid, 2, lambda part: part[:-4]),
        "other payload": alter(valid, 1, lambda _: encode_part(claims(sub="admin", roles=["admin"]))),
        "other header": alter(valid, 0, lambda _: encode_part({"alg": "ES256", "kid": "ec", "x": 1})),
        "header is a list": alter(valid, 0, lambda _: encode_part(b"[]")),
        "header is no JSON": alter(valid, 0, lambda _: encode_part(b"{")),
        "header is deep": alter(valid, 0, lambda _: encode_part(b"[" * 3000)),
        "two parts": valid.rpartition(".")[0],
        "four parts": f"{valid}.AAAA",
        "five parts": f"{valid}.AAAA.AAAA",
        "dots": "..",
        "text": "secret",
        "payload is a list": sign(b"[]"),
        "payload is no JSON": sign(b"{"),
        "payload with a claim twice": sign(twice),
        "payload with NaN": sign(json.dumps(claims(exp=float("nan"))).encode()),
        "payload is deep": sign(b'{"a":' * 200 + b"1" + b"}" * 200),
        "with a quote": f'"{valid}"',
        **{f"claims: {name}": sign(wrong) for name, wrong in bad_claims().items()},
    }


@pytest.mark.parametrize("name", forgeries())
def test_a_forged_token_is_refused(jwks_service, name):
    token = forgeries()[name]  # made now: one from the start of the run may be refused because it has expired
    answer = jwks_service.post("/v1/tasks/claim", token=token)
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (
        401,
        "unauthenticated",
        "the token was refused",
    )
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("header", ["", "Bearer", "Basic YTpi", f"Bearer {'x' * 9000}", "Token abc"])
def test_a_request_without_a_bearer_token_is_refused(jwks_service, header):
    answer = jwks_service.client.post("/v1/tasks/claim", json={}, headers={"authorization": header})
    assert answer.status_code == 401


def test_two_tokens_are_refused(jwks_service):
    token = f"Bearer {sign(claims())}"
    headers = [("authorization", token), ("authorization", token)]
    assert jwks_service.client.post("/v1/tasks/claim", json={}, headers=headers).status_code == 401


def test_unknown_key_ids_do_not_make_the_service_fetch_keys_again_and_again(jwks_service, keys):
    jwks_service.post("/v1/tasks/claim", token=sign(claims()))
    fetched = len(keys.requests)
    for number in range(20):
        jwks_service.post("/v1/tasks/claim", token=sign(claims(), kid=f"unknown-{number}"))
    assert len(keys.requests) <= fetched + 1


def test_a_token_claims_only_the_commands_of_its_event_types(jwks_service):
    both = sign(claims(scope="enqueue claim", eventTypes=["mail.send"]))
    for command in ("mail.send", "mail.delete"):
        jwks_service.post("/v1/tasks", {"command": command}, token=both)
    assert jwks_service.post("/v1/tasks/claim", {"commands": ["mail.delete"]}, token=both).status_code == 403
    answer = jwks_service.post("/v1/tasks/claim", {"commands": ["mail.delete", "mail.send"], "limit": 9}, token=both)
    assert {claim["task"]["command"] for claim in answer.json()["claims"]} == {"mail.send"}
    every = sign(claims(scope="claim", eventTypes=["*"]))
    answer = jwks_service.post("/v1/tasks/claim", {"commands": ["mail.delete"], "limit": 9}, token=every)
    assert {claim["task"]["command"] for claim in answer.json()["claims"]} == {"mail.delete"}
    none = sign(claims(scope="claim", eventTypes=...))
    assert jwks_service.post("/v1/tasks/claim", token=none).status_code == 403
