"""Signatures of stored definitions: a scheduler signs the jobs of a schedule, so it must not trust what the store says.

Without them, whoever can write to the store could put a schedule there, and let a scheduler sign its jobs. A definition
is signed as a job of a type that no handler has, with the keys and by the rules of ``holdfast.signing``: where
signatures are required, a schedule without one does not fire. What is not signed is when a schedule fires next, and
whether it is paused.
"""

from __future__ import annotations

import msgspec

from holdfast.cron.entries import ScheduleState
from holdfast.cron.schedule import Schedule
from holdfast.model.job import JobRecord
from holdfast.model.request import DEFAULT_QUEUE, RESERVED_META
from holdfast.wire.identity import split_signature
from holdfast.wire.signing import Signer, Verdict

TYPE = f"{RESERVED_META}schedule"

_canonical = msgspec.json.Encoder(order="sorted").encode


class Definitions:
    """Signs and verifies the definitions of schedules; does neither without a signer."""

    def __init__(self, signer: Signer | None) -> None:
        self._signer = signer

    def sign(self, schedule: Schedule) -> str | None:
        """Return the signature of a definition, with the newest key. Raises ``InvalidInput`` without a key for it."""
        if self._signer is None:
            return None
        [signed] = self._signer.sign([_record(schedule, schedule.to_json())])
        return signed.signature

    def find_fault(self, schedule: Schedule, state: ScheduleState) -> str | None:
        """Return why a schedule must not be used as the store has it; None if it may.

        The signature is that of the stored definition, which may have fields that the schedule does not have any more.
        """
        if self._signer is None:
            return None
        signature = state.signature
        verdict = self._signer.verify(_record(schedule, state.definition, signature))
        if verdict is Verdict.VALID or (verdict is Verdict.UNSIGNED and not self._signer.required):
            return None
        if verdict is Verdict.UNSIGNED:
            return "its definition has no signature, and signatures are required"
        key_id = split_signature(signature)[0]
        if verdict is Verdict.UNKNOWN_KEY:
            return f"its definition was signed with the unknown key {key_id}"
        return f"its definition is not the one that was signed with the key {key_id}"


def _record(schedule: Schedule, definition: dict[str, object], signature: str | None = None) -> JobRecord:
    return JobRecord(
        id=schedule.name,
        type=TYPE,
        queue=schedule.queue or DEFAULT_QUEUE,
        payload=_canonical(definition),
        created_at=0,
        signature=signature,
    )
