"""Checks of what a request says about webhooks, and of the queue that belongs to them."""

from __future__ import annotations

from holdfast.errors import InvalidInput, RequestRefused
from holdfast.model import bounds
from holdfast.net.guarded import check_url
from holdfast.service.operation import Call
from holdfast.service.problems import Code, Problem
from holdfast.webhooks.delivery import QUEUE


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


def check_queue(queue: str) -> str:
    """Return the queue of a request. Only the service makes deliveries: a forged one would get its signature."""
    if queue == QUEUE:
        raise InvalidInput("queue", wanted="another queue: this one belongs to the service", got=queue)
    return queue
