"""Repair after the host's clock was far ahead: move what the store recorded then to the right time.

Without it, a lease of a worker that died then ends when the clock has caught up, and so does the delay of a job.
"""

from __future__ import annotations

from holdfast.clock import MAX_CLOCK_HOLD
from holdfast.drivers.sqlite.transaction import Transaction


def count_future_rows(tx: Transaction) -> int:
    """Return how many live jobs, rate buckets and stopped domains have an instant that is far in the future."""
    return int(tx.run("clock/count_future", _parameters(tx)).fetchone()[0])


def repair(tx: Transaction) -> int:
    """Move leases, delays, rate buckets and waits from the future to now; return how many rows were changed.

    A lease keeps its length, so that a worker that still runs the job loses nothing.
    """
    for name in ("clock/unpark", "clock/wake_keys"):  # reserve parks the jobs again whose keys have no place
        tx.run(name, {"space": tx.space})
    tables = ("clock/move_leases", "clock/move_ready", "clock/move_buckets", "clock/move_keys", "clock/move_domains")
    return sum(tx.run(name, _parameters(tx, now=tx.now)).rowcount for name in tables)


def _parameters(tx: Transaction, **more: int) -> dict[str, object]:
    return {"space": tx.space, "limit": tx.now + MAX_CLOCK_HOLD, **more}
