"""The idempotency key of a job that is unique without one: a hash of its type and its payload."""

from __future__ import annotations

import hashlib

import msgspec

from holdfast.wire.codec import JSON, Codec

PREFIX = "unique:"  # tells people, and later readers of keys, that nobody chose the key
DIGEST_BYTES = 16

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def with_unique_key(type_: str, payload: bytes, codec: Codec) -> tuple[bytes, str]:
    """Return the payload to store, and the key. JSON objects that differ in the order of their keys are equal.

    So the stored payload has the keys in order, too: the store compares the payloads of a key byte by byte.
    """
    if codec.name == JSON.name:
        payload = _encode_sorted(msgspec.json.decode(payload))
    digest = hashlib.blake2b(type_.encode() + b"\0" + payload, digest_size=DIGEST_BYTES)
    return payload, PREFIX + digest.hexdigest()
