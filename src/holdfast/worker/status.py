"""The status of a settled attempt: one word, the same in the worker's tally, in its results and in Spark's progress.

| status | meaning |
|---|---|
| ``acked`` | the handler succeeded: the job is done |
| ``skipped`` | the work of the job was finished before: the job is done, and its handler was not called |
| ``retried`` | the attempt failed and was counted: the job is ready again |
| ``released`` | the attempt was not counted: the job is ready again |
| ``rejected`` | the payload is not what the handler takes, or the signature is wrong: the job is dead |
| ``dead`` | the job is dead for any other reason |
| ``cancelled`` | a cancel was requested while the job ran, and the attempt did not succeed |
| ``lost`` | the store refused the settlement: the lease had ended before |
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from holdfast.errors import LeaseError, StoreError
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack, Fail, Release, Settlement
from holdfast.model.transition import HeldJob, after_settlement
from holdfast.worker.decide import BAD_PAYLOAD, BAD_SIGNATURE, SKIPPED
from holdfast.worker.processes.running import Run

Status: TypeAlias = Literal["acked", "skipped", "retried", "released", "rejected", "dead", "cancelled", "lost"]


class Settled(NamedTuple):
    """An ended attempt, its settlement, the store's refusal if any, and the status that follows."""

    run: Run
    settlement: Settlement
    refused: LeaseError | StoreError | None
    status: Status


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """The end of one job in ``process_once``: its status, or ``empty`` if no job was due."""

    status: Status | Literal["empty"]
    job_id: str | None = None
    error: str = ""


@dataclass(slots=True)
class Tally:
    """How many attempts of a worker ended with which status. Safe to share between threads."""

    statuses: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, statuses: Iterable[Status]) -> None:
        """Add one for each of these statuses."""
        with self._lock:
            self.statuses.update(statuses)


def settled_statuses(
    runs: Sequence[Run],
    settlements: Sequence[Settlement],
    refusals: Sequence[LeaseError | StoreError | None],
) -> list[Status]:
    """Return the status of each settled attempt."""
    is_plain = set(map(type, settlements)) == {Ack} and not any([one.detail for one in settlements])  # noqa: C419 - a list is faster
    if is_plain and not any(refusals):  # nearly always
        return ["acked"] * len(settlements)
    return [
        status_of(run.reservation.job, settlement, refused)
        for run, settlement, refused in zip(runs, settlements, refusals, strict=True)
    ]


def status_of(job: JobRecord, settlement: Settlement, refused: Exception | None) -> Status:
    """Return the status of an attempt from its settlement and the store's answer to it.

    The rules are those that stores apply (``after_settlement``). The settlement's lease shows whether a cancel was
    requested, as of the last heartbeat. Only the store knows for how long a job has been released in all: a release
    that exceeds its budget is dead in the store, and ``released`` here.
    """
    if refused is not None:
        return "lost"
    match after_settlement(_held(job, settlement), settlement, now=0).state:
        case State.DONE:
            return "skipped" if settlement.detail.startswith(SKIPPED) else "acked"
        case State.CANCELLED:
            return "cancelled"
        case State.DEAD:
            is_rejected = isinstance(settlement, Fail) and settlement.reason in (BAD_PAYLOAD, BAD_SIGNATURE)
            return "rejected" if is_rejected else "dead"
        case _:
            return "released" if isinstance(settlement, Release) else "retried"


def dead_reason_of(job: JobRecord, settlement: Settlement) -> str | None:
    """Return why the job is dead after this settlement; None if it is not dead."""
    return after_settlement(_held(job, settlement), settlement, now=0).dead_reason


def _held(job: JobRecord, settlement: Settlement) -> HeldJob:
    lease = settlement.lease
    return HeldJob(
        state=State.INFLIGHT,
        token=lease.token,
        expires_at=lease.expires_at,
        reserved_at=0,
        available_at=0,
        run_at=None,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        crashes=job.crashes,
        max_crashes=job.max_crashes,
        released_for=0,
        cancel_requested=lease.cancel_requested,
        last_verb=None,
        last_token=None,
        last_error="",
        failed_at=None,
    )
