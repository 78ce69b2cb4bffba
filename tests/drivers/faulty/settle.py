"""Faulty drivers: settle, repeated settlements and batches."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from copy import deepcopy

from msgspec import structs

from holdfast.drivers import requests as r
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError
from holdfast.model.job import State
from holdfast.model.settlement import Settlement
from holdfast.model.transition import ATTEMPTS_EXHAUSTED, Transition, is_repeat
from tests.drivers.faulty.faulty_driver import FaultyDriver


class RepeatAcceptsAnyToken(FaultyDriver):
    """A repeated settlement is accepted with any token: a stale worker's ack succeeds."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and row.token is None and row.last_verb == settlement.verb:
            return None
        return super()._settle(space, settlement, now)


class RepeatAcceptsAnyVerb(FaultyDriver):
    """A repeated settlement is accepted with any verb."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and row.token is None and row.last_token == settlement.lease.token:
            return None
        return super()._settle(space, settlement, now)


class RepeatAcceptedWhileInFlight(FaultyDriver):
    """A repeated settlement is accepted after the job was reserved again."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        last = None if row is None else (row.last_verb, row.last_token)
        return None if last == (settlement.verb, settlement.lease.token) else super()._settle(space, settlement, now)


class RepeatRefused(FaultyDriver):
    """A repeated settlement is refused: a worker whose answer was lost seems to have lost its lease."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        return space.refusal(settlement.lease, now) or super()._settle(space, settlement, now)


class RepeatWritesLedgerAgain(FaultyDriver):
    """A repeated settlement writes a second ledger row."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and is_repeat(row.held, settlement):
            space.ledger.append(space.ledger.rows[-1])
        return super()._settle(space, settlement, now)


class BatchRefusedAsAWhole(FaultyDriver):
    """One refused settlement refuses the whole batch."""

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """Try the batch on a copy; refuse everything at the first refusal."""
        copied_space, now = deepcopy(self._space), self._now(request)
        answers = [self._settle(copied_space, settlement, now) for settlement in request.settlements]
        refusals = [answer for answer in answers if answer is not None]
        return [refusals[0]] * len(answers) if refusals else super().settle(request)


class BatchIgnoredAfterRefusal(FaultyDriver):
    """Settlements after the first refusal are answered as accepted but not applied."""

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """Settle one by one, up to the first refusal."""
        answers: list[LeaseError | None] = []
        for settlement in request.settlements:
            answers += super().settle(structs.replace(request, settlements=[settlement]))
            if answers[-1] is not None:
                break
        return answers + [None] * (len(request.settlements) - len(answers))


class BatchRefusedAfterRefusal(FaultyDriver):
    """All settlements after the first refusal are refused."""

    def settle(self, request: r.Settle) -> list[LeaseError | None]:
        """Settle one by one; answer every settlement after the first refusal with that refusal."""
        answers: list[LeaseError | None] = []
        for settlement in request.settlements:
            refusal = next((answer for answer in answers if answer is not None), None)
            answers.append(refusal or super().settle(structs.replace(request, settlements=[settlement]))[0])
        return answers


class ErrorNotStored(FaultyDriver):
    """The error of a settlement is not stored with the job."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Remove the error."""
        return transition._replace(last_error="", failed_at=None)


class ResultNotStored(FaultyDriver):
    """The result of an ack is not stored."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Remove the result."""
        return transition._replace(result=None)


class CheckpointErasedAtEnding(FaultyDriver):
    """The checkpoint is erased when the attempt ends."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Remove the note."""
        row.note = None
        return transition


class ExhaustedJobRemoved(FaultyDriver):
    """A job without attempts left is removed, not made a dead letter."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        answer = super()._settle(space, settlement, now)
        row = space.rows.get(settlement.lease.job_id)
        if row is not None and row.job.dead_reason == ATTEMPTS_EXHAUSTED:
            del space.rows[row.job.id]
        return answer


class CancelWinsOverAck(FaultyDriver):
    """An ack after a cancel request makes the job cancelled."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Make the job cancelled where it should be done."""
        return transition._replace(state=State.CANCELLED) if row.cancel_requested else transition


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    RepeatAcceptsAnyToken,
    RepeatAcceptsAnyVerb,
    RepeatAcceptedWhileInFlight,
    RepeatRefused,
    RepeatWritesLedgerAgain,
    BatchRefusedAsAWhole,
    BatchIgnoredAfterRefusal,
    BatchRefusedAfterRefusal,
    ErrorNotStored,
    ResultNotStored,
    CheckpointErasedAtEnding,
    ExhaustedJobRemoved,
    CancelWinsOverAck,
)
