"""The client of a store: enqueues jobs, reads them, waits for them and cancels them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from typing import Any, Literal, NamedTuple, TypeAlias, overload

from holdfast.approvals import approve
from holdfast.clock import Clock, SystemClock, monotonic
from holdfast.drivers.answers import Page
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Cancel, Domains, Enqueue, ForgetDomain, Read, Requeue, Resume, Scan, Write
from holdfast.drivers.store import Store
from holdfast.enqueue_middleware import EnqueueMiddleware, enqueue_in_middleware
from holdfast.errors import EnqueueConflict, InvalidInput, JobNotDone, JobNotFound, WaitTimeout
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model import bounds
from holdfast.model.domain import DomainInfo, DomainStatus, ResumeAction
from holdfast.model.execution import ExecutionResult
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS, JobRecord, State
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change
from holdfast.model.request import JobRequest, RequestKeywords, SharedKeywords
from holdfast.wire import codec as codecs
from holdfast.wire.codec import Codec
from holdfast.wire.execution_entry import EXECUTION_KIND, read_execution
from holdfast.wire.guard_entries import MARK_KIND, is_done, mark_key
from holdfast.wire.records import to_record, to_records
from holdfast.wire.signing import Signer

MAX_BATCH_JOBS = 5_000  # in one transaction
MAX_BATCH_BYTES = 16 << 20  # of payload in one transaction: a larger one would hold the store's lock for too long
END = object()  # of an iterable
MIN_POLL_SECONDS, MAX_POLL_SECONDS, POLL_GROWTH = 0.002, 0.1, 1.5  # between two reads of a job that is waited for
OnConflict: TypeAlias = Literal["raise", "return"]
Timeout: TypeAlias = timedelta | float | None  # a float is seconds; None waits without limit


class EnqueueKeywords(RequestKeywords, total=False):
    """The keyword arguments of every ``enqueue`` that takes a payload: the fields of a request, and how to store it."""

    connection: object
    on_conflict: OnConflict


class EnqueueManyKeywords(SharedKeywords, total=False):
    """The keyword arguments of every ``enqueue_many`` that takes payloads. Idempotency keys are passed as ``keys``."""

    connection: object
    on_conflict: OnConflict


class Client:
    """Enqueues and reads jobs. Safe to share between threads: it keeps no state but its arguments."""

    def __init__(
        self,
        driver: Store,
        *,
        codec: str | Codec = "json",
        max_payload: int = bounds.MAX_PAYLOAD_BYTES,
        clock: Clock | None = None,
        middleware: Sequence[EnqueueMiddleware] = (),
        signer: Signer | None = None,
        attempts_of: Callable[[str], int] = lambda _: DEFAULT_MAX_ATTEMPTS,
    ) -> None:
        """Use a driver. ``middleware`` is called around every enqueue: see ``holdfast.enqueue_middleware``.

        With a ``signer``, every job is signed: see ``holdfast.signing``. A payload of more than ``max_payload`` bytes
        is refused; the largest ``max_payload`` is 64 MiB. ``attempts_of`` returns the attempts of a job whose request
        names none, by its type: 25, or those of its handler for the client of an app.
        """
        check_driver(driver)
        self._attempts_of = attempts_of
        self.driver = driver
        self._middleware = middleware
        self.signer = signer
        self._codec = codecs.codec_named(codec) if isinstance(codec, str) else codec
        self._max_payload = bounds.check_integer(
            "max_payload", max_payload, least=1, most=bounds.MAX_STORED_PAYLOAD_BYTES
        )
        self._clock = clock or SystemClock()

    @overload
    def enqueue(
        self, request: JobRequest, *, connection: object = None, on_conflict: OnConflict = "raise"
    ) -> Enqueued: ...
    @overload
    def enqueue(
        self, request: Sequence[JobRequest], *, connection: object = None, on_conflict: OnConflict = "raise"
    ) -> list[Enqueued]: ...

    def enqueue(
        self,
        request: JobRequest | Sequence[JobRequest],
        *,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> Enqueued | list[Enqueued]:
        """Store one job, or many; return one answer per request, in order.

        With ``connection`` the jobs are part of the caller's transaction: they exist once the caller commits.

        Every payload is encoded before the first job is stored, so a bad payload stores nothing. Up to
        ``MAX_BATCH_JOBS`` jobs are one transaction. A longer list is several transactions, and a failure leaves the
        earlier ones stored: requests with idempotency keys can simply be sent again.

        The answer for a known key, or for a known offset of a domain, has ``existed=True``; for an offset that has
        ended also ``past=True``. If the payload differs from the stored one, ``EnqueueConflict``
        is raised after all other jobs were stored, and carries all answers; with ``on_conflict="return"`` nothing is
        raised, and the answer has ``conflict=True``.
        """
        driver = self._driver_for(connection, on_conflict)
        if isinstance(request, JobRequest):
            if not self._middleware:  # the most frequent call, so the shortest way
                records = self._sign([self._record(request)])
                return _checked(driver.enqueue(records), records, on_conflict)[0]
            requests: Sequence[JobRequest] = [request]
        else:
            requests = request
        if not isinstance(requests, Sequence):
            raise InvalidInput("request", wanted="a JobRequest or a list of them", got=requests)
        answers, records = self._enqueue(requests, lambda changed: [self._record(each) for each in changed], driver)
        _checked(answers, records, on_conflict)
        return answers[0] if isinstance(request, JobRequest) else answers

    def enqueue_many(
        self,
        template: JobRequest,
        payloads: Iterable[object],
        *,
        keys: Iterable[str | None] | None = None,
        limit_keys: Iterable[str | None] | None = None,
        connection: object = None,
        on_conflict: OnConflict = "raise",
    ) -> list[Enqueued]:
        """Store one job per payload; everything else is as in ``template``.

        ``keys`` are their idempotency keys, and ``limit_keys`` their limit keys, in place of that of the template. The
        template has no offset: jobs with offsets are requests of their own.

        The fastest way to enqueue very many jobs, also from a generator: payloads are read, encoded and stored in
        batches of at most ``MAX_BATCH_JOBS`` jobs and ``MAX_BATCH_BYTES`` of payload, and only one batch is held. Each
        batch is one transaction, or part of the one of ``connection``. A payload that is refused, an error of the
        generator or of the store leaves the earlier batches stored: with keys the whole call can be repeated. Enqueue
        middleware is called for each batch. Returns one answer per payload; conflicts are those of ``enqueue``.
        """
        driver = self._driver_for(connection, on_conflict)
        check_payloads(payloads)
        for name, one in (("keys", keys), ("limit_keys", limit_keys)):
            if isinstance(one, str | bytes):  # each character would be a key
                raise InvalidInput(name, wanted="a list with a key for each payload", got=one)
        if _check_request(template).offset is not None:
            raise InvalidInput(
                "offset", wanted="requests with an offset each (`enqueue`)", got="one offset for many jobs"
            )
        answers: list[Enqueued] = []
        conflict: EnqueueConflict | None = None
        encode = partial(codecs.encode_payload, self._codec, most=self._max_payload)
        for batch in _encoded_batches(map(encode, payloads), keys, limit_keys):
            stored, records = self._enqueue([template], partial(self._records, batch), driver)
            answers += stored
            conflict = conflict or _find_conflict(stored, records)
        if conflict is not None and on_conflict == "raise":
            raise EnqueueConflict(conflict.job_id, conflict.key, answers)
        return answers

    def _records(self, batch: _EncodedBatch, requests: Sequence[JobRequest]) -> JobBatch:
        [template] = requests
        return to_records(
            _check_request(template),
            *batch,
            now=self._clock.now(),
            default_attempts=self._attempts_of(template.type),
            codec=self._codec,
        )

    def enqueue_with_writes(
        self,
        requests: Sequence[JobRequest],
        writes: Sequence[Change],
        *,
        adapt: Callable[[Sequence[JobRecord]], Sequence[JobRecord]] = lambda records: records,
    ) -> list[Enqueued]:
        """Store jobs and registry entries in one transaction: for parts of Holdfast that keep both.

        ``adapt`` changes the records before they are signed. No answer raises ``EnqueueConflict``. Raises
        ``WriteRefused``, and stores nothing, if an entry has another version than its change expects.
        """

        def encode(changed: Sequence[JobRequest]) -> Sequence[JobRecord]:
            return adapt([self._record(each) for each in changed])

        def store(records: Sequence[JobRecord]) -> list[Enqueued]:
            return self.driver.do(Enqueue(jobs=records, writes=writes)).answers

        return self._enqueue(requests, encode, self.driver, store)[0]

    def _enqueue(
        self,
        requests: Sequence[JobRequest],
        encode: Callable[[Sequence[JobRequest]], Sequence[JobRecord]],
        driver: Store,
        store_records: Callable[[Sequence[JobRecord]], list[Enqueued]] | None = None,
    ) -> tuple[list[Enqueued], Sequence[JobRecord]]:
        """Store the jobs inside the middleware; return the answers and the records. ``encode`` makes the records.

        ``store_records`` replaces the calls of the driver, one for each batch.
        """
        records: Sequence[JobRecord] = ()

        def store(requests: Sequence[JobRequest]) -> list[Enqueued]:
            nonlocal records
            records = self._sign(encode(requests))
            if store_records is not None:
                return store_records(records)
            return [answer for batch in batches(records) for answer in driver.enqueue(batch)]

        if self._middleware and requests:
            for request in requests:
                _check_request(request)
            answers = enqueue_in_middleware(self._middleware, requests, store)
        else:
            answers = store(requests)
        return answers, records

    def _sign(self, records: Sequence[JobRecord]) -> Sequence[JobRecord]:
        return records if self.signer is None else self.signer.sign(records)

    def get(self, job_id: str) -> JobRecord | None:
        """Return the job as it is stored now; None if this space does not know it. A joined driver cannot read jobs."""
        return self.driver.get(job_id)

    def wait(self, job_id: str, *, timeout: Timeout) -> JobRecord:
        """Wait until the job is done, dead or cancelled, and return it. ``timeout=None`` has no limit, 0 reads once.

        Polls the store; the poll interval grows to a tenth of a second. Raises ``WaitTimeout``, or ``JobNotFound`` for
        an id that is unknown or was purged meanwhile.
        """
        pauses = poll_pauses(timeout)
        record = self._get_existing(job_id)
        for pause in pauses:
            if record.state.has_ended:
                break
            time.sleep(pause)
            record = self._get_existing(job_id)
        return require_ended(record)

    def result(self, job: JobRecord | str) -> object:
        """Return the result of a done job; None if its handler returned None. Results are JSON, with any payload codec.

        Raises ``JobNotDone`` if the job is in any other state than done, ``JobNotFound`` for an unknown id, and
        ``PayloadError`` if the result cannot be read, and ``Unsupported`` if the store keeps no results.
        """
        record = job if isinstance(job, JobRecord) else self._get_existing(job)
        if record.state is not State.DONE:
            raise JobNotDone(record.id, state=record.state, reason=record.dead_reason, error=record.last_error)
        if record.result is None:
            self.driver.capabilities.require(Feature.RESULT)
            return None
        return codecs.JSON.decode(record.result, field="result")

    def execution(self, job: JobRecord | str) -> ExecutionResult | None:
        """Return the last attempt of a job, with what its handler printed; None if its handler captures no output.

        It is kept as long as the store keeps an ended job. An attempt whose process was killed has no output.
        """
        job_id = job if isinstance(job, str) else job.id
        if not self.driver.capabilities.has(Feature.REGISTRY):
            return None
        [entry] = self.driver.do(Read(kind=EXECUTION_KIND, keys=[job_id]))
        return read_execution(entry)

    def requeue(self, job_ids: Sequence[str]) -> list[bool]:
        """Run dead or cancelled jobs again; return whether each was requeued.

        Also if the idempotency key of such a job is done by another job: an operator decides, and the job runs.
        """
        store = self.driver
        if store.capabilities.has(Feature.REGISTRY) and store.do(Scan(kind=MARK_KIND, limit=1)):
            records = [record for record in map(store.get, job_ids) if record is not None]
            keys = [mark_key(record.queue, record.idempotency_key) for record in records if record.idempotency_key]
            done = [
                entry for entry in store.do(Read(kind=MARK_KIND, keys=keys)) if entry is not None and is_done(entry)
            ]
            store.do(
                Write(changes=[Change(kind=MARK_KIND, key=one.key, value=None, version=one.version) for one in done])
            )
        return store.do(Requeue(job_ids=job_ids))

    def requeue_signed(self, jobs: Sequence[JobRecord]) -> list[bool]:
        """Sign dead letters that you have reviewed, as they are in these records, and requeue them.

        For jobs that were rejected because of their signature. A job that was changed after the review is rejected
        again. Logs ``job.signed_again``. Needs a client with a ``signer``.
        """
        if self.signer is None:
            raise InvalidInput("signer", wanted="a client with a signer: see `open_signer`", got="none")
        approve(self.driver, self.signer, jobs)
        return self.requeue([job.id for job in jobs])

    def domains(
        self,
        queue: str | None = None,
        *,
        status: DomainStatus | None = None,
        name: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page[DomainInfo]:
        """Return a page of the domains that have open jobs or are halted, ordered by queue and name."""
        return self.driver.do(Domains(queue=queue, status=status, name=name, limit=limit, after=after))

    def resume_domain(
        self,
        queue: str,
        domain: str,
        action: ResumeAction = ResumeAction.RESUME,
        *,
        position: int | None = None,
    ) -> bool:
        """Let a halted domain go on, or move its position; return whether this call changed the domain.

        With ``position``, the domain waits for no offset below it any more. Logs ``domain.resumed``.
        """
        changed = self.driver.do(Resume(queue=queue, domain=domain, action=action, position=position))
        if changed:
            log_event(events.DOMAIN_RESUMED, queue=queue, domain=domain, reason=action.value, position=position)
        return changed

    def forget_domain(self, queue: str, domain: str) -> bool:
        """Remove what a domain without open jobs remembers: its ended offsets, its start and its halt.

        Returns False if the domain has an open job, or nothing to remove. Logs ``domain.forgotten``.
        """
        forgotten = self.driver.do(ForgetDomain(queue=queue, domain=domain))
        if forgotten:
            log_event(events.DOMAIN_FORGOTTEN, queue=queue, domain=domain)
        return forgotten

    def cancel(self, job_id: str) -> State:
        """Cancel a waiting job, or request that a running job stops; return the new state. Raises ``JobNotFound``.

        ``inflight`` means that a cancel was requested: the job becomes cancelled unless its handler succeeds. A job
        that has ended does not change.
        """
        [state] = self.driver.do(Cancel(job_ids=[job_id]))
        if state is None:
            raise JobNotFound(job_id)
        return state

    def _driver_for(self, connection: object, on_conflict: OnConflict) -> Store:
        if on_conflict not in ("raise", "return"):
            raise InvalidInput("on_conflict", wanted="'raise' or 'return'", got=on_conflict)
        return self.driver if connection is None else self.driver.joined(connection)

    def _get_existing(self, job_id: str) -> JobRecord:
        record = self.get(job_id)
        if record is None:
            raise JobNotFound(job_id)
        return record

    def _record(self, request: JobRequest) -> JobRecord:
        return to_record(
            _check_request(request),
            now=self._clock.now(),
            default_attempts=DEFAULT_MAX_ATTEMPTS if request.max_attempts else self._attempts_of(request.type),
            codec=self._codec,
            max_payload=self._max_payload,
        )


def _check_request(value: object) -> JobRequest:
    if not isinstance(value, JobRequest):
        raise InvalidInput("request", wanted="a JobRequest", got=value)
    return value


def check_driver(driver: object) -> None:
    """Raise ``InvalidInput`` for anything that is no driver: most often a URL. Its value may have a password."""
    if not hasattr(driver, "capabilities"):
        got = "a text" if isinstance(driver, str) else type(driver).__name__
        raise InvalidInput("driver", wanted="a driver, as connect(url) returns it", got=got)


def check_payloads(payloads: object) -> None:
    """Raise ``InvalidInput`` for one payload in place of many: the characters of a text would become jobs."""
    if isinstance(payloads, str | bytes | bytearray | Mapping) or not isinstance(payloads, Iterable):
        raise InvalidInput("payloads", wanted="a list of payloads, or another iterable of them", got=payloads)


def _checked(answers: list[Enqueued], records: Sequence[JobRecord], on_conflict: OnConflict) -> list[Enqueued]:
    """Return the answers; raise ``EnqueueConflict`` for the first conflict, unless the caller wants it returned."""
    conflict = _find_conflict(answers, records) if on_conflict == "raise" else None
    if conflict is not None:
        raise conflict
    return answers


def _find_conflict(answers: Sequence[Enqueued], records: Sequence[JobRecord]) -> EnqueueConflict | None:
    for index, answer in enumerate(answers):
        if answer.conflict:
            record = records[index]
            return EnqueueConflict(answer.id, record.idempotency_key, answers, offset=record.offset)
    return None


class _EncodedBatch(NamedTuple):
    """The columns of some of the jobs of ``enqueue_many``."""

    payloads: Sequence[bytes]
    keys: Sequence[str | None] | None = None
    limit_keys: Sequence[str | None] | None = None


def _encoded_batches(
    payloads: Iterable[bytes], keys: Iterable[str | None] | None, limit_keys: Iterable[str | None] | None
) -> Iterator[_EncodedBatch]:
    """Yield batches that are bounded by count and bytes: at least one, which may be empty."""
    columns = {"payloads": payloads, "keys": keys, "limit_keys": limit_keys}
    given: dict[str, Iterable[Any]] = {name: column for name, column in columns.items() if column is not None}
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in zip_longest(*given.values(), fillvalue=END):
        if END in row:
            has_more = row[0] is END
            name = next(name for name, value in zip(given, row, strict=True) if (value is END) is not has_more)
            raise InvalidInput(name, wanted="one for each payload", got="more" if has_more else "fewer")
        if rows and (len(rows) == MAX_BATCH_JOBS or size + len(row[0]) > MAX_BATCH_BYTES):
            yield _EncodedBatch(**dict(zip(given, map(list, zip(*rows, strict=True)), strict=True)))
            rows, size = [], 0
        rows.append(row)
        size += len(row[0])
    rest = map(list, zip(*rows, strict=True)) if rows else ([] for _ in given)
    yield _EncodedBatch(**dict(zip(given, rest, strict=True)))


def batches(records: Sequence[JobRecord]) -> Iterator[Sequence[JobRecord]]:
    """Yield the records in order, in batches bounded by count and bytes; a very large record is a batch of one."""
    payloads = records.payloads if isinstance(records, JobBatch) else [record.payload for record in records]
    start = size = 0
    for index, payload in enumerate(payloads):
        if index > start and (index - start == MAX_BATCH_JOBS or size + len(payload) > MAX_BATCH_BYTES):
            yield records[start:index]
            start, size = index, 0
        size += len(payload)
    if records:
        yield records[start:]


# Polling, for Client and AsyncClient -----------------------------------------------------------------------


def poll_pauses(timeout: Timeout, monotonic: Callable[[], float] = monotonic) -> Iterator[float]:
    """Return the seconds to sleep between two polls: growing, the last one cut at the deadline."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else math.inf if timeout is None else timeout
    if not isinstance(seconds, int | float) or not seconds >= 0:  # NaN is refused, too
        raise InvalidInput("timeout", wanted="a timedelta, seconds from 0, or None for no limit", got=timeout)
    return _growing_pauses(monotonic() + seconds, monotonic)


def _growing_pauses(deadline: float, monotonic: Callable[[], float]) -> Iterator[float]:
    pause = MIN_POLL_SECONDS
    while (left := deadline - monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * POLL_GROWTH, MAX_POLL_SECONDS)


def require_ended(record: JobRecord) -> JobRecord:
    """Return the record if its job has ended; else raise ``WaitTimeout``."""
    if not record.state.has_ended:
        raise WaitTimeout(record.id, state=record.state)
    return record
