"""The signature of a delivery, by Standard Webhooks: HMAC-SHA256 over ``id.timestamp.body``, in three headers."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
VERSION = "v1"


def signed_headers(secrets: Iterable[bytes], *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery; ``timestamp`` is in seconds. Several secrets make several signatures."""
    content = f"{message_id}.{timestamp}.".encode() + body
    signatures = [b64encode(hmac.digest(secret, content, "sha256")).decode("ascii") for secret in secrets]
    return {
        ID: message_id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(f"{VERSION},{signature}" for signature in signatures),
    }
