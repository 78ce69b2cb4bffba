"""What an attempt costs and which jobs run alone (L7), computed from the calls and the ledger only."""

from __future__ import annotations

from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.ledger import Ending, LedgerRow
from tests.drivers.simulation.tracked import TrackedJob, TrackedLease


def wrong_reservation(
    tracked: TrackedJob, reservation: Reservation, isolation: Isolation, *, is_shared: bool
) -> str | None:
    """Return what is wrong with the counters or the isolation of a reserved job; None if nothing is.

    ``is_shared`` says whether the answer has other jobs.
    """
    got = (reservation.job.attempts, reservation.job.crashes)
    wanted = (tracked.attempts + 1, tracked.crashes)
    if got != wanted:
        return f"has the attempt and crashes {got}, wanted {wanted}"
    if reservation.isolated != tracked.must_run_alone:
        return f"is {'' if reservation.isolated else 'not '}isolated"
    if tracked.must_run_alone and isolation in {Isolation.STOP, Isolation.SKIP}:
        return "is isolated, and its worker holds other leases"
    if tracked.must_run_alone and is_shared and isolation is Isolation.ALONE:
        return "is isolated, and its answer has other jobs"
    return None


def count_ending(tracked: TrackedJob, lease: TrackedLease, row: LedgerRow, *, in_outage: bool) -> str | None:
    """Count what the end of a lease costs its job. Return what is wrong with the ledger row; None if nothing is."""
    tracked.counted_crash = None
    if lease.verb is None:
        return _count_expiry(tracked, lease, row, in_outage=in_outage)
    if row.ending is Ending.RELEASED:
        tracked.attempts -= 1
    elif row.ending is Ending.RETRIED:
        tracked.crashes, tracked.is_suspect = 0, False
    return None


def _count_expiry(tracked: TrackedJob, lease: TrackedLease, row: LedgerRow, *, in_outage: bool) -> str | None:
    tracked.is_suspect = not lease.has_begun
    if not lease.has_begun:
        tracked.attempts -= 1
    elif not in_outage:
        tracked.crashes += 1
        tracked.counted_crash = lease.lease.fence
    if lease.cancel_requested:
        wanted = State.CANCELLED
    elif lease.has_begun and tracked.is_exhausted:
        wanted = State.DEAD
    else:
        wanted = State.READY
    if row.state is not wanted:
        begun = "begun" if lease.has_begun else "not begun"
        return f"the expired job had {begun} and should be {wanted}, got {row}"
    return None
