"""``Content-Digest`` (RFC 9530): what a client says about the bytes that it sends, and what it is told about them."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error

from holdfast.service.problems import Code, Problem

FIELD = "content-digest"
SHA256_BYTES = 32
_MEMBER = re.compile(r"\s*([a-z*][a-z0-9_.*-]*)=:([A-Za-z0-9+/=]*):\s*")  # one algorithm of a structured dictionary


def read_content_digest(value: str | None) -> str | None:
    """Return the SHA-256 in hex; None if there is no header. Raises ``Problem`` for a header without a SHA-256."""
    if value is None:
        return None
    digests: dict[str, str] = {}
    for member in value.split(","):
        found = _MEMBER.fullmatch(member)
        if found is None or found[1] in digests:
            raise _invalid()
        digests[found[1]] = found[2]
    try:
        digest = b64decode(digests["sha-256"], validate=True)
    except (KeyError, Base64Error):
        raise _invalid() from None
    if len(digest) != SHA256_BYTES:
        raise _invalid()
    return digest.hex()


def format_digest(digest: str) -> str:
    """Return the header of a SHA-256 in hex."""
    return f"sha-256=:{b64encode(bytes.fromhex(digest)).decode()}:"


def _invalid() -> Problem:
    return Problem(Code.INVALID_REQUEST, "wanted sha-256=:BASE64:", field=FIELD)
