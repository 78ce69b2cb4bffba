"""Messages about artifacts."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.service.schemas.fields import Answer, Instant, LeaseToken

MAX_HEADER_CHARACTERS = 512

HeaderText = Annotated[str, Meta(max_length=MAX_HEADER_CHARACTERS, pattern="^[\\x20-\\x7e]*$")]
_MEMBER = "[a-z*][a-z0-9_.*-]*=:[A-Za-z0-9+/=]*:"
ContentDigest = Annotated[
    str,
    Meta(
        max_length=MAX_HEADER_CHARACTERS,
        pattern=f"^({_MEMBER}, ?)*sha-256=:[A-Za-z0-9+/]{{43}}=:(, ?{_MEMBER})*$",
    ),
]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Headers(msgspec.Struct, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """Headers that an operation reads."""


class UploadHeaders(Headers):
    """The headers of an upload by a worker. ``Content-Digest`` is that of RFC 9530."""

    lease_token: LeaseToken
    content_digest: ContentDigest | None = None


class DownloadHeaders(Headers):
    """The headers of a download: one range of bytes, if the artifact still has the tag."""

    range: HeaderText | None = None
    if_range: HeaderText | None = None


class ArtifactInfo(Answer):
    """An artifact of a task that has ended."""

    name: str
    sha256: Sha256
    size: int
    content_type: str  # as its worker said; it is sent as application/octet-stream
    uploaded_at: Instant


class ArtifactList(Answer):
    """The artifacts that the attempt which has ended the task has named."""

    task_id: str
    artifacts: list[ArtifactInfo]


class UploadedArtifact(Answer):
    """An artifact that is stored. It is visible when the attempt has ended the task and named it."""

    task_id: str
    name: str
    sha256: Sha256
    size: int
    lease_until: Instant
    cancel_requested: bool
