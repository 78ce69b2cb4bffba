"""The check of the webhook that a request names."""

from __future__ import annotations

from holdfast.errors import RequestRefused
from holdfast.model import bounds
from holdfast.net.guarded import check_url
from holdfast.service.operation import Call
from holdfast.service.problems import Code, Problem


def check_webhook(call: Call, field: str, url: str) -> str:
    """Return a URL that deliveries of this space may go to. Raises ``Problem``; its addresses are checked later."""
    bounds.check_webhook(field, url)
    try:
        check_url(url, call.service.webhooks.rules)
    except RequestRefused as error:
        raise Problem(Code.INVALID_REQUEST, f"wanted a URL that is allowed: {error.reason}", field=field) from error
    if not call.service.webhooks.secrets.of(call.principal.space):
        raise Problem(Code.UNSUPPORTED, "the service has no secret to sign webhooks of this space with", field=field)
    return url
