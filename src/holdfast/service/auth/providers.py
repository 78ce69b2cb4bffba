"""The providers that the settings name."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import InvalidInput
from holdfast.service.auth.introspection import IdentityTokens
from holdfast.service.auth.issuer_request import IssuerRequests
from holdfast.service.auth.jwks import JwksTokens
from holdfast.service.auth.principal import ClaimRules
from holdfast.service.auth.provider import Authenticator, Provider, TokenFailure
from holdfast.service.auth.static import StaticTokens
from holdfast.settings.serve import AuthMode, ServeSettings


def open_authenticator(
    settings: ServeSettings, *, space: str, check_seconds: float, on_failure: Callable[[TokenFailure], None]
) -> Authenticator:
    """Return the authenticator. Raises ``InvalidInput`` for a provider whose settings are incomplete."""
    if AuthMode.NONE in settings.auth and len(settings.auth) > 1:
        raise InvalidInput("serve_auth", wanted="none, or providers", got="both")
    rules = ClaimRules(space=space, space_claim=settings.space_claim, scope_prefix=settings.scope_prefix)
    providers: dict[AuthMode, Provider] = {}
    for mode in settings.auth:
        match mode:
            case AuthMode.NONE:
                pass
            case AuthMode.STATIC:
                providers[mode] = StaticTokens(_required(mode, "tokens_file", settings.tokens_file), space=space)
            case AuthMode.JWKS:
                url = _required(mode, "jwks_url", settings.jwks_url)
                providers[mode] = JwksTokens(
                    IssuerRequests("serve_jwks_url", url, ca_file=settings.ca_file),
                    rules,
                    issuer=_required(mode, "issuer", settings.issuer),
                    audience=_required(mode, "audience", settings.audience),
                )
            case AuthMode.IDENTITY:
                url = _required(mode, "introspection_url", settings.introspection_url)
                providers[mode] = IdentityTokens(
                    IssuerRequests("serve_introspection_url", url, ca_file=settings.ca_file),
                    IssuerRequests("serve_introspection_url", url, ca_file=settings.ca_file),
                    rules,
                    check_seconds=check_seconds,
                    client_id=settings.client_id,
                    client_secret=settings.client_secret,
                    issuer=settings.issuer,
                    audience=settings.audience,
                )
    return Authenticator(providers, space=space, on_failure=on_failure)


def _required(mode: AuthMode, name: str, value: str | None) -> str:
    if value is None:
        raise InvalidInput(f"serve_{name}", wanted=f"a value, because serve_auth has {mode}", got="none")
    return value
