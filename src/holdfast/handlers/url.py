"""The handler ``url``: send an HTTP request to an allowed URL."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.errors import RequestRefused
from holdfast.handlers.messages import UrlRequest, UrlResult
from holdfast.model.job import Job
from holdfast.net.guarded import Request, Response, Rules, send
from holdfast.net.retry_after import retry_after
from holdfast.worker.control import Retry, Unrecoverable
from holdfast.worker.outcome import plain_text

DEFAULT_MAX_BODY_BYTES = 64 << 10
MAX_BODY_BYTES = 512 << 10  # fits into a result
MAX_SHOWN_BODY_CHARACTERS = 500  # in the error of the job
MAX_HEADERS_CHARACTERS = 16 << 10  # of all headers in the result
RETRIED_STATUSES = frozenset({408, 425, 429})  # and all from 500
BUSY_STATUSES = frozenset({429, 503})  # the server, not the URL, asks for a delay
MAX_HOST_CHARACTERS = 253
NOT_IDEMPOTENT = frozenset({"POST", "PATCH"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRules:
    """What a status means. By default 2xx is success, 408, 425, 429 and 5xx are retried, others are unrecoverable."""

    accepted: Collection[int] = ()  # besides 200 to 299
    retried: Collection[int] = RETRIED_STATUSES  # besides those from 500


def request_url(request: UrlRequest, job: Job, rules: Rules, statuses: StatusRules) -> UrlResult:
    """Send the request; return its answer if it is a success.

    Raises ``Retry`` for a status that says "later", and ``Unrecoverable`` for a request that is not allowed or a status
    that another try will not change. Raises ``RequestFailed`` if there is no whole answer: a failed attempt.

    POST and PATCH carry the id of the job as ``Idempotency-Key``, unless the request has one: the server can recognise
    a repetition.
    """
    headers = dict(request.headers)
    if request.method in NOT_IDEMPOTENT and not any(name.lower() == "idempotency-key" for name in headers):
        headers["Idempotency-Key"] = job.id
    body = request.body.encode("utf-8", "surrogatepass")
    try:
        response = send(Request(url=request.url, method=request.method, headers=headers, body=body), rules)
    except RequestRefused as error:
        raise Unrecoverable(f"not allowed: {error.reason}") from error
    if 200 <= response.status < 300 or response.status in statuses.accepted:
        return UrlResult(
            status=response.status,
            headers=_headers(response),
            body=response.body.decode(errors="replace"),
            truncated=response.truncated,
        )
    message = f"status {response.status}"
    if response.status in range(300, 400):
        raise Unrecoverable(f"{message}: redirects are not followed")
    if shown := response.body.decode(errors="replace").strip()[:MAX_SHOWN_BODY_CHARACTERS]:
        message = f"{message}: {plain_text(shown)}"
    if response.status >= 500 or response.status in statuses.retried:
        after = retry_after(response)
        raise Retry(after=after, reason=message, pause_key=after is not None and response.status in BUSY_STATUSES)
    raise Unrecoverable(message)


def host_of(request: UrlRequest) -> str | None:
    """Return the host of the request, in lower case, as the limit key of its job; None if it has no usable host."""
    try:
        host = urlsplit(request.url).hostname
    except ValueError:
        return None
    return host if host and len(host) <= MAX_HOST_CHARACTERS and host.isascii() and host.isprintable() else None


def _headers(response: Response) -> dict[str, str]:
    """Return the headers for the result: those of one name together, and not more than a result should hold."""
    headers: dict[str, str] = {}
    left = MAX_HEADERS_CHARACTERS
    for name, value in response.headers:
        left -= len(name) + len(value)
        if left < 0:
            break
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers
