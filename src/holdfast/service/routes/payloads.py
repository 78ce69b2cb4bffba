"""Calls about payloads that are too large for a task: a producer streams one, and the worker of the task reads it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.artifacts.blobs import PAYLOAD_PART, part_folder, task_folder
from holdfast.artifacts.manifest import PayloadBlob
from holdfast.artifacts.payloads import PayloadReference, reference_of
from holdfast.artifacts.records import drop_manifest, record_payload
from holdfast.model.request import META_PAYLOAD_REF
from holdfast.service.artifact_transfers import noted_upload, transfers_of
from holdfast.service.auth.principal import Scope
from holdfast.service.content_digest import read_content_digest
from holdfast.service.lease_calls import LeaseKeeper
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, not_found
from holdfast.service.routes.artifacts import OCTETS, send_blob, space_quota
from holdfast.service.routes.claims import STALE
from holdfast.service.routes.tasks import enqueued, new_record
from holdfast.service.schemas.artifacts import PayloadHeaders, UploadPayloadHeaders
from holdfast.service.schemas.fields import JsonValue
from holdfast.service.schemas.tasks import EnqueuedTask, TaskFields


async def enqueue_upload(call: Call) -> Reply:
    """Store one task whose payload is the body of the request, however large it is."""
    transfers, tenant = transfers_of(call), call.tenant
    quota, now = space_quota(call.service.serve), tenant.clock.now()
    digest = read_content_digest(call.headers.content_digest)
    record = new_record(call, call.query, JsonValue(b"null"))

    def undo(_: str) -> None:  # the id of the task is new, so nothing else has its folder
        transfers.blobs.remove(task_folder(tenant.name, record.id))
        drop_manifest(tenant.store, record.id)

    async with noted_upload(call, record.id, undo) as key:
        folder = part_folder(tenant.name, record.id, PAYLOAD_PART)
        most = call.service.serve.artifact_max_bytes
        found, size = await transfers.receive(call.body, folder, most=most, digest=digest)
        blob = PayloadBlob(digest=found, size=size)
        await tenant.calls.run(record_payload, tenant.store, record.id, blob, now=now, space_quota=quota)
        reference = PayloadReference(sha256=found, size=size).encode()
        answer = await tenant.enqueue(replace(record, payload=reference, meta={**record.meta, META_PAYLOAD_REF: True}))
        if answer.existed:  # by its idempotency key: the task that exists has a payload of its own
            await tenant.calls.run(undo, key)
    return enqueued(answer)


async def show_payload(call: Call) -> Reply:
    """Return the payload of a task to the worker that has claimed it, wherever it is stored."""
    headers: PayloadHeaders = call.headers
    task_id = call.path["task_id"]
    await LeaseKeeper.start(call, task_id, headers.lease_token)
    job = await call.tenant.calls.settle(call.tenant.store.get, task_id)
    if job is None:
        raise not_found(task_id)
    reference = reference_of(job)
    if reference is None:
        return Reply(content=job.payload, content_type=OCTETS)
    folder = part_folder(call.tenant.name, task_id, PAYLOAD_PART)
    return await send_blob(call, folder, digest=reference.sha256, size=reference.size, file_name="payload.json")


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="enqueueUpload",
        method="POST",
        path="/tasks/upload",
        summary="Enqueue a task whose payload is the body: for large payloads",
        handler=enqueue_upload,
        scope=Scope.ENQUEUE,
        query=TaskFields,
        headers=UploadPayloadHeaders,
        upload="application/json",
        answers={202: EnqueuedTask},
        problems=(
            Code.IDEMPOTENCY_CONFLICT,
            Code.STORE_FULL,
            Code.QUOTA_EXCEEDED,
            Code.ARTIFACTS_FULL,
            Code.DIGEST_MISMATCH,
            Code.UNSUPPORTED_MEDIA_TYPE,
        ),
    ),
    Operation(
        name="showPayload",
        method="GET",
        path="/tasks/{task_id}/payload",
        summary="Read the payload of a task in progress, or a range of it",
        handler=show_payload,
        scope=Scope.CLAIM,
        headers=PayloadHeaders,
        answers={200: bytes, 206: bytes},
        problems=(*STALE, Code.RANGE_NOT_SATISFIABLE),
    ),
)
