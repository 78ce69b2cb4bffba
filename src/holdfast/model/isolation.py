"""Which jobs run alone, and what a reserve does with them (L7).

A job is isolated if the death of its worker may be its own doing: a suspect (its last lease expired before it had
begun), and a job that crashed.
"""

from __future__ import annotations

from enum import StrEnum


class Isolation(StrEnum):
    """What a reserve does with isolated jobs. Except for ``SHARE``, an isolated job never shares an answer."""

    SHARE = "share"  # they are returned like other jobs: the caller takes care of them itself
    ALONE = "alone"  # the caller holds no lease: an isolated job is returned alone, and only if it comes first
    STOP = "stop"  # the caller holds leases: only jobs before the first isolated one are returned
    SKIP = "skip"  # the caller holds leases: isolated jobs are passed over
