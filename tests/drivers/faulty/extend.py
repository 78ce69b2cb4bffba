"""Faulty drivers: extend and notes."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.drivers import requests as r
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError, LeaseExpired
from holdfast.model.lease import Lease, Note
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class ExtendRevivesExpiredLease(FaultyDriver):
    """An expired lease can be extended until it is reaped."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        answer = super()._extend(space, lease, now, expires_at, note)
        if isinstance(answer, LeaseExpired):
            space.extend(space.rows[lease.job_id], expires_at)
            return replace(lease, expires_at=expires_at)
        return answer


class ExtendIgnoresToken(FaultyDriver):
    """An extend is accepted with any token."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        row = space.rows.get(lease.job_id)
        if row is not None and row.token is not None:
            lease = replace(lease, token=row.token)
        return super()._extend(space, lease, now, expires_at, note)


class ExtendOnlyLengthens(FaultyDriver):
    """An extend never moves expires_at back, but returns the earlier value."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        row = space.rows.get(lease.job_id)
        before = row.expires_at if row is not None else None
        answer = super()._extend(space, lease, now, expires_at, note)
        if row is not None and isinstance(answer, Lease) and before is not None and before > expires_at:
            space.extend(row, before)
        return answer


class _ExtendNotStoredSpace(FaultySpace):
    def extend(self, row: Row, expires_at: int) -> None:
        """Keep the old expires_at."""


class ExtendNotStored(FaultyDriver):
    """An extend returns a later expires_at but does not store it."""

    space_type = _ExtendNotStoredSpace


class _OmittedNoteFieldsErasedSpace(FaultySpace):
    def store_note(self, row: Row, note: Note) -> None:
        row.note, row.started_at = note, note.started_at


class OmittedNoteFieldsErased(FaultyDriver):
    """A field that a note omits is erased."""

    space_type = _OmittedNoteFieldsErasedSpace


class StaleNoteAppearsLater(FaultyDriver):
    """The checkpoint of a refused extend appears with the next note of the job."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        answer = super()._extend(space, lease, now, expires_at, note)
        if isinstance(answer, LeaseError) and note is not None:
            self._stale_notes = {lease.job_id: note}
        elif isinstance(answer, Lease) and lease.job_id in getattr(self, "_stale_notes", {}):
            space.store_note(space.rows[lease.job_id], Note(checkpoint=self._stale_notes[lease.job_id].checkpoint))
        return answer


class CancelRequestNotReported(FaultyDriver):
    """An extend does not report the cancel request."""

    def _extend(self, space: Space, lease: Lease, now: int, expires_at: int, note: Note | None) -> Lease | LeaseError:
        answer = super()._extend(space, lease, now, expires_at, note)
        return replace(answer, cancel_requested=False) if isinstance(answer, Lease) else answer


class ExtendAnswersOutOfOrder(FaultyDriver):
    """Extend returns the refusals after the extended leases."""

    def extend(self, request: r.Extend) -> list[Lease | LeaseError]:
        """Return the answers in another order."""
        return sorted(super().extend(request), key=lambda answer: isinstance(answer, LeaseError))


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    ExtendRevivesExpiredLease,
    ExtendIgnoresToken,
    ExtendOnlyLengthens,
    ExtendNotStored,
    OmittedNoteFieldsErased,
    StaleNoteAppearsLater,
    CancelRequestNotReported,
    ExtendAnswersOutOfOrder,
)
