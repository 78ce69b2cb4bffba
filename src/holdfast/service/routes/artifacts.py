"""Calls about artifacts: a worker uploads them under its lease, and a producer reads those of a task that has ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from holdfast.artifacts.blobs import part_folder
from holdfast.artifacts.manifest import (
    MAX_CONTENT_TYPE_CHARACTERS,
    Artifact,
    check_artifact_name,
)
from holdfast.artifacts.quota import Quota, Quotas
from holdfast.artifacts.records import record_upload, visible_artifacts
from holdfast.service.artifact_transfers import noted_upload, transfers_of
from holdfast.service.auth.principal import Scope
from holdfast.service.content_digest import format_digest, read_content_digest
from holdfast.service.lease_calls import LeaseKeeper
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, not_found
from holdfast.service.routes.claims import STALE
from holdfast.service.schemas.artifacts import (
    ArtifactList,
    DownloadHeaders,
    UploadedArtifact,
    UploadHeaders,
)
from holdfast.service.schemas.fields import instant
from holdfast.service.system_queues import hide
from holdfast.service.task_answers import info_of

MAX_TASK_ARTIFACTS = 32  # of an attempt
TASK_BYTES_FACTOR = 4  # an attempt may upload this many times the largest artifact
MAX_SPACE_ARTIFACTS = 1_000_000  # and uploaded payloads
OCTETS = "application/octet-stream"
# A browser shows nothing of an artifact: it saves it, whatever its name and type say.
DOWNLOAD_HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'", "Accept-Ranges": "bytes"}
_CONTENT_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(\s*;[\x20-\x7e]*)?")
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._ -]")


# Workers ----------------------------------------------------------------------------------------------------------


async def upload(call: Call) -> Reply:
    """Store an artifact of the present attempt: 201, or 200 if it was there. The lease is extended meanwhile."""
    transfers, settings = transfers_of(call), call.service.serve
    headers: UploadHeaders = call.headers
    task_id, store = call.path["task_id"], call.tenant.store
    name, digest = check_artifact_name(call.path["artifact"]), read_content_digest(headers.content_digest)
    content_type = _content_type(call.body.content_type)
    keeper = await LeaseKeeper.start(call, task_id, headers.lease_token)
    quotas = Quotas(
        task=Quota(count=MAX_TASK_ARTIFACTS, total_bytes=TASK_BYTES_FACTOR * settings.artifact_max_bytes),
        space=Quota(count=MAX_SPACE_ARTIFACTS, total_bytes=settings.artifact_space_bytes),
    )

    def remove(part: str) -> None:
        transfers.blobs.remove(part_folder(call.tenant.name, task_id, part))

    async with noted_upload(call, task_id, remove) as part:
        folder = part_folder(call.tenant.name, task_id, part)
        most = settings.artifact_max_bytes
        found, size = await transfers.receive(
            call.body, folder, most=most, digest=digest, on_piece=keeper.extend_if_due
        )
        await keeper.extend()
        artifact = Artifact(
            name=name,
            digest=found,
            size=size,
            content_type=content_type,
            fence=keeper.lease.fence,
            part=part,
            uploaded_at=call.tenant.clock.now(),
        )
        recorded = await call.tenant.calls.settle(record_upload, store, task_id, artifact, quotas)
        for dropped in recorded.dropped_parts:
            await transfers.run(remove, dropped)
    until = instant(keeper.lease.expires_at)
    assert until is not None
    return Reply(
        status=201 if recorded.is_new else 200,
        content=UploadedArtifact(
            task_id=task_id,
            name=name,
            sha256=found,
            size=size,
            lease_until=until,
            cancel_requested=keeper.lease.cancel_requested,
        ),
    )


def _content_type(value: str) -> str:
    """Return the type that a worker gives. It is only told to others: nothing of the service depends on it."""
    if not value:
        return OCTETS
    if len(value) > MAX_CONTENT_TYPE_CHARACTERS or not _CONTENT_TYPE.fullmatch(value):
        raise Problem(Code.INVALID_REQUEST, "wanted a media type such as text/csv", field="content-type")
    return value


# Producers --------------------------------------------------------------------------------------------------------


async def list_artifacts(call: Call) -> Reply:
    """Return the artifacts of a task; a task that has not ended has none."""
    task_id = call.path["task_id"]
    found = await _visible(call)
    return Reply(content=ArtifactList(task_id=task_id, artifacts=[info_of(one) for one in found]))


async def download(call: Call) -> Reply:
    """Return the bytes of an artifact, or one range of them."""
    transfers_of(call)
    task_id, wanted = call.path["task_id"], check_artifact_name(call.path["artifact"])
    for one in await _visible(call):
        if one.name == wanted:
            folder = part_folder(call.tenant.name, task_id, one.folder_part)
            return await send_blob(call, folder, digest=one.digest, size=one.size, file_name=one.name)
    raise Problem(Code.NOT_FOUND, "the task has no such artifact", task_id=task_id)


async def _visible(call: Call) -> tuple[Artifact, ...]:
    transfers_of(call)
    task_id, store = call.path["task_id"], call.tenant.store
    found = hide(call.principal, await call.tenant.inspect_one(task_id))
    if found is None:
        raise not_found(task_id)
    return await call.tenant.calls.run(visible_artifacts, store, found)


async def send_blob(call: Call, folder: str, *, digest: str, size: int, file_name: str) -> Reply:
    """Return the answer with the bytes of a blob, to be saved under a name."""
    headers: DownloadHeaders = call.headers
    tag = f'"{digest}"'
    part = _range_of(headers.range, size) if headers.if_range in (None, tag) else None
    start, stop = part or (0, size)
    answer = {
        **DOWNLOAD_HEADERS,
        "ETag": tag,
        "Repr-Digest": format_digest(digest),  # of the whole artifact, also for a range of it
        "Content-Disposition": _disposition(file_name),
        "Content-Length": str(stop - start),
    }
    if part is not None:
        answer["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    status = 200 if part is None else 206
    transfers = transfers_of(call)
    try:
        if call.is_head:
            await transfers.run(transfers.blobs.read, folder, digest)
            return Reply(status=status, headers={**answer, "Content-Type": OCTETS})
        content = await transfers.send(call.tenant.name, folder, digest, start=start, stop=stop)
    except FileNotFoundError:  # it is lost, or was removed together with its task meanwhile
        raise Problem(Code.NOT_FOUND, "the task has no such artifact") from None
    return Reply(status=status, content=content, content_type=OCTETS, headers=answer)


def _range_of(value: str | None, size: int) -> tuple[int, int] | None:
    """Return the first byte and the one after the last; None for the whole. Raises ``Problem`` if there are none.

    A header with several ranges, or with another unit, is ignored, as RFC 9110 allows.
    """
    found = None if value is None else _RANGE.fullmatch(value.replace(" ", ""))
    if found is None or found[1] == found[2] == "":
        return None
    if found[1]:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
        if found[2] and int(found[2]) < start:
            return None  # not a range
    else:
        start, stop = max(0, size - int(found[2])), size
    if start >= stop:
        raise Problem(Code.RANGE_NOT_SATISFIABLE, headers={"Content-Range": f"bytes */{size}"})
    return start, stop


def _disposition(name: str) -> str:
    """Return the header by which a browser saves the artifact (RFC 6266): a plain name, and the exact one."""
    plain = _NOT_PLAIN.sub("_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="uploadArtifact",
        method="PUT",
        path="/tasks/{task_id}/artifacts/{artifact}",
        summary="Upload an artifact of a task in progress",
        handler=upload,
        scope=Scope.RESULT,
        headers=UploadHeaders,
        upload=OCTETS,
        answers={201: UploadedArtifact, 200: UploadedArtifact},
        links={"listArtifacts": {"parameters": {"task_id": "$response.body#/taskId"}}},
        problems=(
            *STALE,
            Code.ARTIFACT_EXISTS,
            Code.QUOTA_EXCEEDED,
            Code.ARTIFACTS_FULL,
            Code.DIGEST_MISMATCH,
            Code.UNSUPPORTED_MEDIA_TYPE,
        ),
        settles=True,
    ),
    Operation(
        name="listArtifacts",
        method="GET",
        path="/tasks/{task_id}/artifacts",
        summary="List the artifacts of a task that has ended",
        handler=list_artifacts,
        scope=Scope.READ,
        answers={200: ArtifactList},
    ),
    Operation(
        name="downloadArtifact",
        method="GET",
        path="/tasks/{task_id}/artifacts/{artifact}",
        summary="Read an artifact, or a range of it",
        handler=download,
        scope=Scope.READ,
        headers=DownloadHeaders,
        answers={200: bytes, 206: bytes},
        problems=(Code.RANGE_NOT_SATISFIABLE,),
    ),
)
