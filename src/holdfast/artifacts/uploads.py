"""Uploads that have begun and have not ended. One entry of the registry each, written before the first byte.

A service that dies leaves the entry, which leads the collector to the bytes.
"""

from __future__ import annotations

import secrets

import msgspec

from holdfast.drivers.requests import Write
from holdfast.drivers.store import Store
from holdfast.model.registry import Change, Entry

UPLOAD_KIND = "artifacts.upload"


class BegunUpload(msgspec.Struct, kw_only=True, frozen=True):
    """An upload for a task."""

    job_id: str
    began_at: int


def begin_upload(registry: Store, job_id: str, *, now: int) -> str:
    """Note that bytes will be written for a task; return the key of the upload."""
    key = secrets.token_hex(16)
    value = msgspec.msgpack.encode(BegunUpload(job_id=job_id, began_at=now))
    registry.do(Write(changes=[Change(kind=UPLOAD_KIND, key=key, value=value, version=0)]))
    return key


def end_upload(registry: Store, key: str) -> None:
    """Forget an upload: a row names its bytes, or they were removed."""
    registry.do(Write(changes=[Change(kind=UPLOAD_KIND, key=key, value=None)]))


def read_upload(entry: Entry) -> BegunUpload:
    """Return the upload that an entry keeps."""
    return msgspec.msgpack.decode(entry.value or b"", type=BegunUpload)
