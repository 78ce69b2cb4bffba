"""Problem details (RFC 9457)."""

from __future__ import annotations

import msgspec


class ProblemDetails(msgspec.Struct, kw_only=True, rename="camel"):
    """An error. ``code`` is stable; the texts are for people and may change."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    field: str | msgspec.UnsetType = msgspec.UNSET  # of the request that is not allowed
    task_id: str | msgspec.UnsetType = msgspec.UNSET
    request_id: str | msgspec.UnsetType = msgspec.UNSET
