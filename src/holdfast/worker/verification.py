"""Verify the signatures of reserved jobs, before any of them is sent to a child process.

The parent verifies, not the attempt in the child: the parent has the whole record, while a child gets only what its
handler needs, and a process that runs handlers needs no key.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.approvals import with_approved_signature
from holdfast.clock import DAY, SECOND, monotonic
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, StoreError
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model.job import JobRecord
from holdfast.wire.identity import split_signature
from holdfast.wire.signing import Signer, Verdict
from holdfast.worker.outcome import BadSignature, Interrupted, Outcome, Snoozed
from holdfast.worker.processes.running import Run

MAX_REJECTED_IN_A_ROW = 10
PAUSE_SECONDS = 10.0
UNKNOWN_KEY_DELAY = 10 * SECOND  # another worker, or this one with a newer key file, may know the key
UNKNOWN_KEY_BUDGET = DAY


class Verification:
    """The signature checks of one worker. After many rejected jobs in a row, the worker pauses its reserves.

    Something is wrong then: this worker may have a wrong key, and would reject every job of the fleet.
    """

    def __init__(self, store: Store, signer: Signer, *, worker: str) -> None:
        self._store = store
        self._signer = signer
        self._worker = worker
        self._rejected_in_a_row = 0
        self._paused_until = 0.0

    def check(self, job: JobRecord) -> Outcome | None:
        """Return None if the job may run, else the outcome of the attempt."""
        verdict = self._signer.verify(job)
        if self._may_run(verdict):
            return None
        try:
            approved = with_approved_signature(self._store, job)
        except StoreError:
            return Interrupted(reason="the store did not say whether the job is approved")
        except InvalidInput:  # an id that no approval can have
            approved = None
        if approved is not None and self._may_run(self._signer.verify(approved)):
            return None
        key_id = split_signature(job.signature)[0]
        if verdict is Verdict.UNKNOWN_KEY:
            reason = f"unknown signing key {key_id}"
            return Snoozed(delay=UNKNOWN_KEY_DELAY, budget=UNKNOWN_KEY_BUDGET, reason=reason)
        self._count_rejected()
        if verdict is Verdict.UNSIGNED:
            return BadSignature(error="the job has no signature, and signatures are required")
        if verdict is Verdict.AMBIGUOUS:
            return BadSignature(error="an object in the payload has a key twice: which value was signed is unknown")
        return BadSignature(error=f"the job is not the one that was signed with the key {key_id}")

    def _may_run(self, verdict: Verdict) -> bool:
        may_run = verdict is Verdict.VALID or (verdict is Verdict.UNSIGNED and not self._signer.required)
        if may_run:
            self._rejected_in_a_row = 0
        return may_run

    def admit(self, runs: Sequence[Run]) -> tuple[list[Run], list[tuple[Run, Outcome]]]:
        """Return the runs that may begin, and the others with their outcomes."""
        checked = [(run, self.check(run.reservation.job)) for run in runs]
        rejected = [(run, outcome) for run, outcome in checked if outcome is not None]
        return [run for run, outcome in checked if outcome is None], rejected

    def pause_left(self) -> float:
        """Return for how many seconds the worker must not reserve."""
        return max(0.0, self._paused_until - monotonic())

    def _count_rejected(self) -> None:
        self._rejected_in_a_row += 1
        if self._rejected_in_a_row >= MAX_REJECTED_IN_A_ROW:
            self._paused_until = monotonic() + PAUSE_SECONDS
            if self._rejected_in_a_row == MAX_REJECTED_IN_A_ROW:
                reason = f"{MAX_REJECTED_IN_A_ROW} bad signatures in a row"
                log_event(events.RESERVE_PAUSED, worker=self._worker, duration=PAUSE_SECONDS, reason=reason)
