"""Calls about artifacts, as a worker and a producer make them."""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.service.http_service import RunningService

CONTENT = b"<html><script>alert(1)</script></html>"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def claim(service: RunningService, command: str, **fields: Any) -> dict[str, Any]:
    """Return the claim of a new task."""
    service.enqueue(command, **fields)
    return service.claim(command)


def upload(
    service: RunningService,
    claimed: dict[str, Any],
    name: str,
    content: bytes | Iterator[bytes] = CONTENT,
    **headers: str,
) -> httpx.Response:
    """Upload an artifact under the lease of a claim."""
    return service.client.put(
        f"/v1/tasks/{claimed['task']['id']}/artifacts/{name}",
        content=content,
        headers={"lease-token": claimed["leaseToken"], **headers},
    )


def download(service: RunningService, claimed: dict[str, Any], name: str, **headers: str) -> httpx.Response:
    """Read an artifact."""
    return service.client.get(f"/v1/tasks/{claimed['task']['id']}/artifacts/{name}", headers=headers)


def names_of(service: RunningService, claimed: dict[str, Any]) -> list[str]:
    """Return the names of the artifacts of a task."""
    answer = service.get(f"/v1/tasks/{claimed['task']['id']}/artifacts")
    assert answer.status_code == 200, answer.text
    return [one["name"] for one in answer.json()["artifacts"]]


def content_digest(content: bytes) -> str:
    """Return the header of RFC 9530."""
    return f"sha-256=:{b64encode(hashlib.sha256(content).digest()).decode()}:"


def files_of(service: RunningService) -> list[Path]:
    """Return the files of all artifacts, also while the service removes folders."""
    folder = service.service.settings.artifacts
    assert folder is not None
    return [Path(place) / name for place, _, names in os.walk(folder) for name in names]
