"""One attempt of a callback: sign, send, and decide what the answer means."""

from __future__ import annotations

import hmac
import random
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import timedelta
from importlib.metadata import version

from holdfast.clock import SECOND, from_timedelta
from holdfast.errors import InvalidInput, RequestFailed, RequestRefused
from holdfast.model.lease import Reservation
from holdfast.model.retry import Exponential, Jitter
from holdfast.model.settlement import Ack, Fail, Retry, Settlement
from holdfast.net.addresses import parse_network
from holdfast.net.guarded import HEADERS, Request, Response, Rules, check_ca_file, send
from holdfast.net.retry_after import retry_after
from holdfast.net.urls import parse_pattern
from holdfast.settings.webhooks import WebhookSettings
from holdfast.webhooks.delivery import Delivery, read_delivery
from holdfast.wire.codec import JSON
from holdfast.worker.decide import BAD_PAYLOAD
from holdfast.worker.outcome import plain_text

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
VERSION = "v1"
BACKOFF = Exponential(timedelta(seconds=5), factor=4, max_delay=timedelta(hours=6), jitter=Jitter.EQUAL)
REFUSED = "webhook not allowed"  # reasons of dead letters
GONE = "webhook gone"
STATUS_GONE = 410  # the receiver wants no more callbacks
MAX_SHOWN_BODY_CHARACTERS = 200
USER_AGENT = f"Holdfast/{version('holdfast')}"


def signed_headers(secrets: Iterable[bytes], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery; ``timestamp`` is in seconds. Several secrets make several signatures."""
    content = f"{message_id}.{timestamp}.".encode() + body
    signatures = [b64encode(hmac.digest(secret, content, "sha256")).decode("ascii") for secret in secrets]
    return {
        ID: message_id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(f"{VERSION},{signature}" for signature in signatures),
    }


# Ten attempts take most of a day: an outage of the receiver over night loses nothing.


def delivery_rules(settings: WebhookSettings) -> Rules:
    """Return where deliveries may go. Raises ``InvalidInput``."""
    check_ca_file("webhooks_ca_file", settings.ca_file)
    return Rules(
        allowed_urls=tuple(parse_pattern("webhooks_urls", one) for one in settings.urls),
        allowed_networks=tuple(parse_network("webhooks_networks", one) for one in settings.networks),
        methods=("POST",),
        headers=HEADERS | {ID, TIMESTAMP, SIGNATURE},
        ca_file=settings.ca_file,
        connect_timeout=timedelta(seconds=10),
        read_timeout=timedelta(seconds=20),
        total_timeout=timedelta(seconds=30),
        max_body_bytes=4 << 10,
    )


def attempt(reservation: Reservation, rules: Rules, secrets: Sequence[bytes], now: int) -> Settlement:
    """Send the request of a callback; return how its lease ends. ``now`` is the instant of the signature."""
    job, lease = reservation.job, reservation.lease
    try:
        delivery = read_delivery(job)
    except InvalidInput as error:
        return Fail(lease, reason=BAD_PAYLOAD, error=str(error))
    try:
        response = send_delivery(delivery, rules, secrets, now)
    except RequestRefused as error:
        return Fail(lease, reason=REFUSED, error=error.reason)
    except RequestFailed as error:
        answer, after = str(error), None
    else:
        if is_accepted(response):
            return Ack(lease, result=JSON.encode({"status": response.status}))
        answer, after = describe(response), retry_after(response)
        if response.status == STATUS_GONE:
            return Fail(lease, reason=GONE, error=answer)
    delay = BACKOFF.delay(max(1, job.attempts), random.random())  # noqa: S311 - jitter
    return Retry(lease, delay=from_timedelta(max(delay, after or timedelta())), error=answer)


def send_delivery(delivery: Delivery, rules: Rules, secrets: Sequence[bytes], now: int) -> Response:
    """Sign and send a request; ``now`` is the instant of the signature. Raises as ``send``."""
    body = delivery.body.encode()
    headers = {"content-type": "application/json", "user-agent": USER_AGENT}
    headers |= signed_headers(secrets, message_id=delivery.id, timestamp=now // SECOND, body=body)
    return send(Request(url=delivery.url, method="POST", headers=headers, body=body), rules)


def is_accepted(response: Response) -> bool:
    """Whether the receiver has taken the request."""
    return 200 <= response.status < 300


def describe(response: Response) -> str:
    """Return an answer as one line: its status, and the beginning of its text."""
    shown = response.body.decode(errors="replace").strip()[:MAX_SHOWN_BODY_CHARACTERS]
    return f"status {response.status}: {plain_text(shown)}" if shown else f"status {response.status}"
