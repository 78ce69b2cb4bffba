"""Payloads that are too large for a job: the job has a reference, and the bytes are a blob in the folder of the job.

A reference is the SHA-256 and the size of the bytes. It takes the place of the payload, so a signature of the job
covers the bytes, and two payloads that differ have different references.
"""

from __future__ import annotations

import hashlib
from typing import Protocol, runtime_checkable

import msgspec

from holdfast import settings as all_settings
from holdfast.artifacts.blobs import PAYLOAD_PART, BlobStore, part_folder
from holdfast.artifacts.folder import BlobFolder
from holdfast.artifacts.manifest import PayloadBlob
from holdfast.artifacts.records import record_payload
from holdfast.artifacts.uploads import begin_upload, end_upload
from holdfast.drivers.contract import Registry
from holdfast.errors import PayloadError, PayloadUnavailable, StoreError
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.request import META_PAYLOAD_REF
from holdfast.settings import Settings

MAX_PAYLOAD_BLOB_BYTES = 1 << 30  # that a process reads into its memory


class PayloadReference(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What a job has in place of its payload."""

    sha256: str
    size: int

    def encode(self) -> bytes:
        """Return the payload of the job."""
        return msgspec.json.encode(self)


def read_reference(payload: bytes) -> PayloadReference:
    """Return the reference in the payload of a job. Raises ``PayloadError``."""
    try:
        return msgspec.json.decode(payload, type=PayloadReference)
    except msgspec.MsgspecError as error:
        raise PayloadError("payload", wanted="a reference to a payload", got=str(error)) from error


def reference_of(job: JobRecord) -> PayloadReference | None:
    """Return the reference of a job; None if the job has its payload itself, or a reference that cannot be read."""
    if META_PAYLOAD_REF not in job.meta:
        return None
    try:
        return read_reference(job.payload)
    except PayloadError:
        return None


@runtime_checkable
class PayloadReader(Protocol):
    """A driver that reads large payloads of its space, for a process that does not have the folder of artifacts."""

    def read_payload(self, job_id: str, digest: str, *, start: int, stop: int) -> bytes | None:
        """Return some bytes of the payload with this SHA-256, from ``start`` and at most up to ``stop``.

        Returns None if it is not there. A driver may return fewer bytes, at least one.
        """
        ...


class PayloadLoader(Protocol):
    """Reads the large payloads of jobs."""

    def load(self, job_id: str, payload: bytes) -> bytes:
        """Return the payload that the reference of a job names.

        Raises ``PayloadUnavailable`` if it is not there, which may change, and ``PayloadError`` if it is not the one
        that was enqueued.
        """
        ...


class PayloadsOfDriver:
    """The large payloads of the space of a driver."""

    def __init__(self, reader: PayloadReader) -> None:
        self._reader = reader

    def load(self, job_id: str, payload: bytes) -> bytes:
        """See ``PayloadLoader``."""
        reference = _checked_reference(payload)
        parts: list[bytes] = []
        size = 0
        while size < reference.size:
            try:
                part = self._reader.read_payload(job_id, reference.sha256, start=size, stop=reference.size)
            except StoreError as error:
                raise PayloadUnavailable(job_id, f"it cannot be read: {error}") from error
            if not part:
                raise PayloadUnavailable(job_id, "it is not there")
            parts.append(part)
            size += len(part)
        return _checked_payload(reference, b"".join(parts))


def _checked_reference(payload: bytes) -> PayloadReference:
    reference = read_reference(payload)
    if not 0 <= reference.size <= MAX_PAYLOAD_BLOB_BYTES:
        wanted = f"a payload of at most {MAX_PAYLOAD_BLOB_BYTES} bytes"
        raise PayloadError("payload", wanted=wanted, got=f"{reference.size} bytes")
    return reference


def _checked_payload(reference: PayloadReference, data: bytes) -> bytes:
    if len(data) != reference.size or hashlib.sha256(data).hexdigest() != reference.sha256:
        raise PayloadError("payload", wanted="the bytes that were enqueued", got=f"{len(data)} other bytes")
    return data


class PayloadStore:
    """The large payloads of one space, in the folder of artifacts. Safe to share between threads."""

    def __init__(self, blobs: BlobStore, *, space: str) -> None:
        self.blobs = blobs
        self.space = space

    def save(self, registry: Registry, job_id: str, payload: bytes, *, now: int) -> bytes:
        """Store the payload of a job that is about to be enqueued; return the reference for the job.

        If the job is never enqueued, the payload is removed a day later. Raises ``PayloadError`` if it is too large.
        """
        bounds.check_blob("payload", payload, most=MAX_PAYLOAD_BLOB_BYTES)
        upload = begin_upload(registry, job_id, now=now)
        writer = self.blobs.create(part_folder(self.space, job_id, PAYLOAD_PART))
        try:
            writer.write(payload)
            reference = PayloadReference(sha256=writer.commit(), size=len(payload))
        finally:
            writer.abort()
        blob = PayloadBlob(digest=reference.sha256, size=reference.size)
        record_payload(registry, job_id, blob, now=now, space_quota=None)
        end_upload(registry, upload)
        return reference.encode()

    def load(self, job_id: str, payload: bytes) -> bytes:
        """See ``PayloadLoader``."""
        reference = _checked_reference(payload)
        folder = part_folder(self.space, job_id, PAYLOAD_PART)
        try:
            pieces = self.blobs.read(folder, reference.sha256, stop=reference.size + 1)
            data = b"".join(pieces)
        except OSError as error:
            raise PayloadUnavailable(job_id, f"it cannot be read: {error.strerror or error}") from error
        return _checked_payload(reference, data)


def open_payloads(settings: Settings | None = None, *, space: str = "main") -> PayloadStore | None:
    """Return the large payloads of a space, for ``Client`` and ``Worker``; None if the settings name no folder.

    Without ``settings``, they are read: ``holdfast.toml``, then ``HOLDFAST_*`` variables.
    """
    settings = settings or all_settings.read()
    return None if settings.artifacts is None else PayloadStore(BlobFolder(settings.artifacts), space=space)
