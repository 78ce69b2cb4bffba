"""What the state machines share: the clock, and the choice of leases and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from tests.drivers.state_machine.comparison import ComparedStore, LeasePair, MakeSettlement, Side
from tests.drivers.state_machine.strategies import ClockMove, Fields


class ComparedMachine(RuleBasedStateMachine):
    """A store that is compared with the oracle, call by call. A subclass has the rules."""

    open_store: ClassVar[Callable[[], Store]]

    def __init__(self) -> None:
        super().__init__()
        self.compared = ComparedStore(type(self).open_store())
        self.record_count = 0

    # Time and choice ------------------------------------------------------------------------------------------------

    def move_clock(self, move: ClockMove) -> None:
        """Move the clock; it never moves back."""
        if isinstance(move, int):
            self.compared.now += move
            return
        index, offset = move
        deadlines = self._deadlines()
        if deadlines:
            self.compared.now = max(self.compared.now, deadlines[index % len(deadlines)] + offset)

    def _deadlines(self) -> list[int]:
        """Return the instants from now on at which the answer of a call may change."""
        state, now = self.compared.oracle.state, self.compared.now
        instants: set[int] = set()
        for job in state.jobs.values():
            instants.add(job.available_at if job.lease is None else job.lease.expires_at)
        instants.update(key.until for key in state.keys.values())
        instants.update(s.paused_until for s in state.settings.values() if s.paused_until is not None)
        instants.update(s.held_until for s in state.settings.values() if s.held_until is not None)
        instants.update(state.key_holds.values())
        for place, (_, since) in state.waits.items():
            of_queue = state.settings.get((place[0], None), QueueSettings())
            instants.update(since + after for after in (of_queue.gap_report_after, of_queue.gap_pass_after) if after)
        instants.update(entry.expires_at for entry in state.registry.values() if entry.expires_at is not None)
        return sorted(instant for instant in instants if instant >= now)

    def lease(self, index: int) -> LeasePair:
        """Return one of all leases ever returned; 0 is the latest."""
        return self.compared.leases[-1 - index % len(self.compared.leases)]

    def job_ids(self, indexes: list[int]) -> list[str]:
        """Return ids that were accepted, 0 is the latest; the oldest index is an id that was never enqueued."""
        known = ["never-enqueued", *self.compared.accepted_ids]
        return [known[-1 - index % len(known)] for index in indexes]

    def has(self, feature: Feature) -> bool:
        """Whether the store supports the feature."""
        return self.compared.store.capabilities.has(feature)

    def has_ready_jobs(self) -> bool:
        """Whether a job is ready, now or later."""
        return any(job.state is State.READY for job in self.compared.oracle.state.jobs.values())

    def record(self, drawn: Fields) -> JobRecord:
        """Return a record with a new id; equal fields make equal payloads."""
        self.record_count += 1
        payload = str(drawn["priority"]).encode()
        if drawn["run_at"] is not None:
            drawn = {**drawn, "run_at": self.compared.now + to_int(drawn["run_at"])}
        fields: Fields = {
            "id": f"j{self.record_count:04}",
            "payload": payload,
            "created_at": self.compared.now,
            **drawn,
        }
        return JobRecord(**fields)  # type: ignore[arg-type]  # drawn by field name


def make_settlement(drawn: Fields) -> MakeSettlement:
    """Return a settlement with those drawn fields that its verb has."""
    common = {"detail": drawn["detail"], "started_at": drawn["started_at"]}
    delay = {"delay": drawn["delay"]}
    delay_or_run_at = delay if drawn["run_at"] is None else {"run_at": drawn["run_at"]}
    error = {"error": drawn["error"]}

    def make(lease: Lease, side: Side) -> Settlement:  # noqa: ARG001 - only versions differ by side
        match drawn["verb"]:
            case "ack":
                return Ack(lease, result=b"7", **common)  # type: ignore[arg-type]  # drawn by field name
            case "retry":
                flags = {"crashed": drawn["crashed"], "hold_key": drawn["hold_key"]}
                return Retry(lease, **flags, **delay_or_run_at, **error, **common)  # type: ignore[arg-type]
            case "fail":
                return Fail(lease, reason="failed by the test", **error, **common)  # type: ignore[arg-type]
            case _:
                return Release(lease, budget=drawn["budget"], **delay, **common)  # type: ignore[arg-type]

    return make


def to_int(drawn: object) -> int:
    """Return a drawn number."""
    assert isinstance(drawn, int)
    return drawn
