"""An issuer of tokens on loopback: publishes keys, signs tokens, and answers introspection."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://issuer.test/", "holdfast"

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
OTHER_EC_KEY = ec.generate_private_key(ec.SECP256R1())


def jwk_of(key: Any, algorithm: str, **fields: Any) -> dict[str, Any]:
    """Return the public key as JWK."""
    maker = jwt.get_algorithm_by_name(algorithm)
    return {**json.loads(maker.to_jwk(key.public_key())), "alg": algorithm, "use": "sig", **fields}


KEYS = [
    jwk_of(RSA_KEY, "RS256", kid="rsa"),
    jwk_of(EC_KEY, "ES256", kid="ec"),
    jwk_of(ED_KEY, "EdDSA", kid="ed"),
]


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a valid worker's token; a change of ``...`` removes a claim."""
    valid = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "worker-1",
        "exp": int(time.time()) + 600,
        "scope": "claim heartbeat result nack abandon",
        "eventTypes": ["mail.send"],
    }
    return {name: value for name, value in (valid | changes).items() if value is not ...}


def encode_part(value: bytes | dict[str, Any]) -> str:
    """Return a part of a token: base64url without padding."""
    data = json.dumps(value).encode() if isinstance(value, dict) else value
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def sign(
    payload: dict[str, Any] | bytes,
    key: Any = EC_KEY,
    algorithm: str = "ES256",
    kid: Any = "ec",
    **header: Any,
) -> str:
    """Return a token with any header and any payload. PyJWT would refuse to make most of the wrong ones."""
    signed = f"{encode_part({'alg': algorithm, 'typ': 'JWT', 'kid': kid} | header)}.{encode_part(payload)}"
    maker = jwt.get_algorithm_by_name(algorithm)
    signature = maker.sign(signed.encode(), maker.prepare_key(key) if algorithm.startswith("HS") else key)
    return f"{signed}.{encode_part(signature)}"


class Issuer:
    """Answers GET with keys, and POST with what ``introspect`` returns for the token."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[dict[str, Any]] = list(KEYS)
        self.requests: list[tuple[str, dict[str, str], str]] = []  # method, headers, body
        self.introspect: Callable[[str], tuple[int, bytes]] = lambda _token: (200, b'{"active":false}')


@contextmanager
def issuer(*, tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    """Run an issuer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, json.dumps({"keys": state.keys}).encode(), "")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            status, answer = state.introspect(parse_qs(body)["token"][0])
            self._answer(status, answer, body)

        def _answer(self, status: int, body: bytes, received: str) -> None:
            state.requests.append((self.command, dict(self.headers.items()), received))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state = Issuer(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}/keys")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
