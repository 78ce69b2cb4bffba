"""``CallbackReader``: reads the ledger, and makes one delivery job of each end of a job that has a webhook (L13).

The cursor moves in the transaction that stores the deliveries, by compare-and-set. So a reader that dies repeats a page
and stores nothing twice, a reader that was overtaken stores nothing, and no end is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.artifacts.manifest import MANIFEST_KIND, Manifest, read_manifest
from holdfast.client import batches
from holdfast.clock import SECOND, Clock, to_datetime
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Enqueue, Read
from holdfast.drivers.store import Store
from holdfast.errors import LedgerTrimmed, WriteRefused
from holdfast.ledger_reader import LedgerReader, find_webhooks, read_jobs
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.webhooks.delivery import QUEUE, Delivery, callback_record, message_id
from holdfast.webhooks.turn import Turn
from holdfast.wire.signing import Signer, Verdict
from holdfast.wire.stored_json import stored_value

NAMING_TIME = 2 * SECOND  # after the end of a failed attempt, until its artifacts are named: that is a second step
MAX_RESULT_BYTES = 4 << 20  # a larger result is left out: the receiver can read it from the service
STATUSES = {State.DONE: "COMPLETED", State.DEAD: "FAILED", State.CANCELLED: "CANCELLED"}
NAME = "webhooks"  # of the registered reader
PAGE_ROWS = 1000
READ_JOBS = 32  # in one call: their payloads and results are in memory at the same time
MAX_HELD_BYTES = 4 << 20  # of deliveries, before they are stored


def read_manifests(store: Store, job_ids: Sequence[str]) -> dict[str, Manifest]:
    """Return the manifests of these jobs, by job id; most jobs have none."""
    if not job_ids:
        return {}
    manifests = [read_manifest(entry) for entry in store.do(Read(kind=MANIFEST_KIND, keys=job_ids))]
    return {job_id: found for job_id, found in zip(job_ids, manifests, strict=True) if found is not None}


def artifacts_of(row: LedgerRow, manifest: Manifest | None) -> list[dict[str, object]]:
    """Return the artifacts of an end."""
    if manifest is None or row.state is None:
        return []
    return [
        {
            "name": one.name,
            "sha256": one.digest,
            "size": one.size,
            "contentType": one.content_type,
            "uploadedAt": to_datetime(one.uploaded_at),
        }
        for one in manifest.visible(row.state, row.ended_at)
    ]


def are_being_named(row: LedgerRow, manifest: Manifest | None, now: int) -> bool:
    """Whether the attempt has failed a moment ago, and which of its uploads are its artifacts may follow."""
    if manifest is None or row.state is not State.DEAD or row.fence is None or not manifest.uploads_of(row.fence):
        return False
    is_named = manifest.completion is not None and manifest.completion.fence == row.fence
    return not is_named and 0 <= now - row.ended_at < NAMING_TIME


def callback_body(row: LedgerRow, job: JobRecord, artifacts: Sequence[object] = ()) -> str:
    """Return the JSON text. The job may have been requeued since: only its webhook and result are read from it."""
    assert row.state is not None
    body: dict[str, object] = {
        "taskId": row.job_id,
        "command": row.type,
        "status": STATUSES[row.state],
        "result": stored_value(job.result) if row.state is State.DONE else None,
        "error": _error(row, job),
        "artifacts": artifacts,
        "attempts": row.attempt,
        "completedAt": to_datetime(row.ended_at),
    }
    if row.state is State.DONE and job.result is not None and len(job.result) > MAX_RESULT_BYTES:
        body |= {"result": None, "resultBytes": len(job.result)}
    return msgspec.json.encode(body).decode()


def _error(row: LedgerRow, job: JobRecord) -> str | None:
    if row.state is State.DONE:
        return None
    reason = job.dead_reason if row.state is job.state is State.DEAD else None
    return row.error or reason or row.detail or None


@dataclass(frozen=True, slots=True, kw_only=True)
class _CalledRows:
    """Ledger rows with their cursors, and what is known of the jobs among them that have a webhook."""

    page: Sequence[tuple[str, LedgerRow]]
    webhooks: Mapping[str, str]  # by job id
    manifests: Mapping[str, Manifest]


def _is_end(row: LedgerRow) -> bool:
    """Whether a job has ended. The ends of deliveries themselves are told to nobody."""
    return row.state is not None and row.state.has_ended and row.queue != QUEUE


class CallbackReader:
    """The reader of one space. Used by one thread. Retention waits for it, until an operator removes it."""

    def __init__(self, store: Store, *, space: str, name: str, signer: Signer | None, clock: Clock) -> None:
        self._store = store
        self._space = space
        self._signer = signer
        self._clock = clock
        self._ledger = LedgerReader(store, NAME)
        self._turn = Turn(store, NAME, name=name)
        self._is_atomic = store.capabilities.has(Feature.WRITES)

    def read(self) -> bool:
        """Read a page of the ledger, if it is this process's turn; return whether there may be more to read."""
        page = self._read_page()
        if not page or not self._turn.take():
            return False
        called = self._find_called(page)
        if not called.page:
            return False
        cursor, _ = called.page[-1]
        try:
            self._store_deliveries(self._deliveries(called), cursor)
        except WriteRefused:
            return True  # another process has read this page
        return len(page) == PAGE_ROWS

    def stop(self) -> None:
        """Let another process go on at once."""
        self._turn.give_back()

    def _read_page(self) -> list[tuple[str, LedgerRow]]:
        try:
            return self._ledger.read(PAGE_ROWS)
        except LedgerTrimmed:
            reason = "ledger rows were removed before they were read; reading goes on at the oldest row"
            log_event(events.WEBHOOK_MISSED, space=self._space, reason=reason)
            self._ledger.forget()
            return self._ledger.read(PAGE_ROWS)

    def _find_called(self, page: Sequence[tuple[str, LedgerRow]]) -> _CalledRows:
        """Find the webhooks and artifacts of a page. It is cut before an end whose artifacts are not known yet."""
        ended = {row.job_id: None for _, row in page if _is_end(row)}
        webhooks = find_webhooks(self._store, list(ended)) if ended else {}
        manifests = read_manifests(self._store, list(webhooks))
        now = self._clock.now()
        places = (
            place
            for place, (_, row) in enumerate(page)
            if row.job_id in webhooks and are_being_named(row, manifests.get(row.job_id), now)
        )
        return _CalledRows(page=page[: next(places, len(page))], webhooks=webhooks, manifests=manifests)

    def _deliveries(self, called: _CalledRows) -> Iterator[JobRecord]:
        for row, job in self._called_jobs(called):
            if not self._is_authentic(job):
                continue
            number = f"at-{row.ended_at}" if row.fence is None else str(row.fence)  # a job that never ran has no fence
            body = callback_body(row, job, artifacts_of(row, called.manifests.get(row.job_id)))
            url = called.webhooks[row.job_id]
            delivery = Delivery(id=message_id(self._space, row.job_id, number), url=url, body=body)
            yield callback_record(delivery, key=f"{row.job_id}/{number}", now=self._clock.now())

    def _called_jobs(self, called: _CalledRows) -> Iterator[tuple[LedgerRow, JobRecord]]:
        """Return the ends of jobs with a webhook, each with its job. A job that was removed is left out."""
        ends = [row for _, row in called.page if _is_end(row) and row.job_id in called.webhooks]
        for start in range(0, len(ends), READ_JOBS):
            rows = ends[start : start + READ_JOBS]
            jobs = read_jobs(self._store, list(dict.fromkeys(row.job_id for row in rows)))
            yield from ((row, jobs[row.job_id]) for row in rows if row.job_id in jobs)

    def _is_authentic(self, job: JobRecord) -> bool:
        """Whether the webhook is the one that was signed: else whoever can write to the store could read results."""
        if self._signer is None:
            return True
        verdict = self._signer.verify(job)
        if verdict is Verdict.VALID or (verdict is Verdict.UNSIGNED and not self._signer.required):
            return True
        reason = f"signature: {verdict.value}"
        log_event(events.WEBHOOK_REJECTED, job_id=job.id, type=job.type, reason=reason)
        return False

    def _store_deliveries(self, records: Iterator[JobRecord], cursor: str) -> None:
        """Store the deliveries, and move the cursor. Raises ``WriteRefused`` if another reader has moved it."""
        last = self._store_all_but_last(records)
        advance = self._ledger.advance_with(cursor)
        if last and self._is_atomic:
            self._store.do(Enqueue(jobs=self._signed(last), writes=[advance]))
            return
        if last:
            self._store.enqueue(self._signed(last))
        if not self._ledger.advance(cursor):
            raise WriteRefused("", kind=advance.kind, key=advance.key)

    def _store_all_but_last(self, records: Iterator[JobRecord]) -> list[JobRecord]:
        """Store batches of bounded size; return the last one. Their keys make a repetition harmless."""
        held: list[JobRecord] = []
        size = 0
        for record in records:
            if held and size + len(record.payload) > MAX_HELD_BYTES:
                for batch in batches(held):
                    self._store.enqueue(self._signed(batch))
                held, size = [], 0
            held.append(record)
            size += len(record.payload)
        return held

    def _signed(self, records: Sequence[JobRecord]) -> Sequence[JobRecord]:
        return records if self._signer is None else self._signer.sign(records)
