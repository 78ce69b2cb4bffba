"""Secrets that sign webhooks, in the form of Standard Webhooks: ``whsec_`` and 24 to 64 random bytes in base64."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable

from holdfast.errors import InvalidInput

PREFIX = "whsec_"
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64
MAX_SECRETS = 5  # of one space: a delivery carries one signature of each
_WANTED = f"{PREFIX} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes in base64"


def parse_secret(field: str, text: str) -> bytes:
    """Return the bytes of a secret. Raises ``InvalidInput``, which never has the text."""
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(PREFIX) or not MIN_SECRET_BYTES <= len(secret) <= MAX_SECRET_BYTES:
        raise InvalidInput(field, wanted=_WANTED, got="another text")
    return secret


def parse_secrets(field: str, texts: Iterable[str]) -> tuple[bytes, ...]:
    """Return the bytes of the secrets of one space. Raises ``InvalidInput``."""
    secrets = tuple(parse_secret(field, text.strip()) for text in texts)
    if not 1 <= len(secrets) <= MAX_SECRETS:
        raise InvalidInput(field, wanted=f"1 to {MAX_SECRETS} secrets", got=len(secrets))
    return secrets
