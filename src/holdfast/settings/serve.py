"""``ServeSettings``: the settings of the HTTP service, ``[serve]`` in ``holdfast.toml`` or ``HOLDFAST_SERVE_*``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from holdfast.model.secret import Secret

DEFAULT_BIND = "127.0.0.1:8700"


class AuthMode(StrEnum):
    """Who checks the bearer token of a request."""

    NONE = "none"  # nobody: loopback only
    STATIC = "static"  # a file with tokens, for development
    JWKS = "jwks"  # JSON Web Tokens, verified with the public keys of their issuer
    IDENTITY = "identity"  # an endpoint for token introspection (RFC 7662)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """How ``holdfast serve`` listens, whom it trusts, and what it allows."""

    bind: str = DEFAULT_BIND
    public_url: str | None = None  # of the service for its clients; without it, as the request has named it
    auth: tuple[AuthMode, ...] = (AuthMode.NONE,)  # asked in this order; the first one that knows the token decides
    tokens_file: str | None = None  # of ``static``
    jwks_url: str | None = None  # of ``jwks``, like the next two
    issuer: str | None = None  # the exact ``iss``; of ``identity``, too
    audience: str | None = None  # must be the ``aud`` or one of them; of ``identity``, too
    introspection_url: str | None = None  # of ``identity``, like the next two
    client_id: str | None = None
    client_secret: Secret | None = None
    ca_file: str | None = None  # authorities for ``jwks`` and ``identity``; without it, those of the system
    space_claim: str | None = None  # the claim that names the space; without one, all tokens share the space
    scope_prefix: str = ""  # before the names of scopes in a token, such as "holdfast:"
    lease: timedelta = timedelta(seconds=30)  # of a claim that does not say
    max_lease: timedelta = timedelta(hours=1)
    max_wait: timedelta = timedelta(seconds=60)  # of a long poll
    max_body_bytes: int = 4 << 20
    artifact_max_bytes: int = 256 << 20  # of one artifact, and of a payload that is uploaded
    artifact_space_bytes: int = 100 << 30  # of all artifacts of a space
    max_requests: int = 1000  # at the same time
    rate: float | None = None  # requests per second of one token and scope, in one process
    threads: int = 16  # calls to the store at the same time
