"""What Hypothesis draws: records, notes, settings, settlements, registry changes and moves of the clock.

There are few queues, types, domains, keys and workers, so that calls collide. A value that is repeated in
``sampled_from`` is drawn more often.
"""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import strategies as st

from holdfast.clock import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from holdfast.model.isolation import Isolation
from holdfast.model.lease import Note
from holdfast.model.queue_settings import LimitOrigin, QueueSettings
from holdfast.model.unique import WHILE_OPEN, WHILE_QUEUED
from tests.drivers.state_machine.comparison import START

QUEUES = ["mail", "reports"]
TYPES = ["send", "build"]
WORKERS = ["ada", "bob"]
KEYS = ["k1", "k2"]
LIMIT_KEYS = ["h1", "h2"]
KIND = "lock"
LEASE_LENGTHS = [MINUTE, MINUTE, HOUR, SECOND, MILLISECOND, 1]
DELAYS = [0, 0, 1, SECOND, HOUR]

# How the clock moves before a call: by a length, or to (index of a deadline, microseconds before or after it).
ClockMove: TypeAlias = int | tuple[int, int]
Fields: TypeAlias = dict[str, object]  # drawn fields of a record, a settlement or a change

# An index that counts back from the latest item: mostly a recent item, sometimes one that ended long ago.
recent_index = st.sampled_from([0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 7, 10, 15, 25, 40, 70])
reserve_rules = st.fixed_dictionaries(
    {},
    optional={
        "isolation": st.sampled_from(Isolation),
        "prefetch": st.booleans(),
        "max_bytes": st.sampled_from([1, 4, 100]),
    },
)
recent_indexes = st.lists(recent_index, min_size=1, max_size=4)
# The clock mostly stands still; otherwise most leases would expire before they are used.
_NEAR_A_DEADLINE: list[ClockMove] = [(index, offset) for index in (0, 0, 1, 2) for offset in (-1, 0, 1)]
_FORWARD: list[ClockMove] = [1, 7, MILLISECOND, SECOND, 61 * SECOND, HOUR, DAY + 1]
clock_moves = st.sampled_from([*[0] * 60, *_NEAR_A_DEADLINE, *_FORWARD])
job_fields = st.fixed_dictionaries(
    {
        "type": st.sampled_from(TYPES),
        "queue": st.sampled_from(QUEUES),
        "priority": st.sampled_from([0, 0, 5, 9]),
        "domain": st.sampled_from([None, None, "d1", "d2"]),
        "idempotency_key": st.sampled_from([None, None, *KEYS]),
        "limit_key": st.sampled_from([None, LIMIT_KEYS[0], *LIMIT_KEYS]),
        "unique_for": st.sampled_from([None, None, WHILE_OPEN, WHILE_QUEUED, SECOND]),
        "run_at": st.sampled_from([None, None, None, None, -SECOND, 0, SECOND, HOUR]),  # relative to now
        "max_attempts": st.sampled_from([25, 3, 2, 1]),
        "max_crashes": st.sampled_from([3, 1, None]),
    },
    optional={
        "timeout": st.just(SECOND),
        "name": st.just("Invoice 7 für Zoë"),
        "meta": st.just({"trace": "00-ab", "n": 1}),
        "signature": st.just("v1.k.0123"),
        "requested_run_at": st.just(START + SECOND),
        "last_error": st.just("imported"),
    },
)
notes = st.builds(
    Note,
    started_at=st.sampled_from([None, START + 3]),
    progress=st.sampled_from([None, b"50"]),
    checkpoint=st.sampled_from([None, b"page 2", b"page 3"]),
)
queue_settings = st.one_of(
    st.just(QueueSettings()),
    st.builds(QueueSettings, paused_until=st.sampled_from([SECOND, HOUR])),  # relative to now
    st.builds(QueueSettings, max_inflight=st.integers(1, 2), dedupe_window=st.sampled_from([1, SECOND, DAY])),
    st.builds(QueueSettings, held_until=st.sampled_from([None, SECOND]), probing=st.booleans()),
    # Only whole rates: with other rates a driver may differ from the oracle's fractions by a millionth of a job.
    st.builds(QueueSettings, rate=st.sampled_from([1, 2, 3, 7.0]), burst=st.sampled_from([None, 1, 2])),
    st.builds(QueueSettings, key_max_inflight=st.integers(1, 2)),
    st.builds(
        QueueSettings,
        max_inflight=st.sampled_from([None, 1, 2]),
        limits_from=st.sampled_from([LimitOrigin.HANDLER, *LimitOrigin]),
    ),
    st.builds(
        QueueSettings,
        key_max_inflight=st.sampled_from([None, None, None, 2]),
        key_rate=st.sampled_from([1, 1, 2, 7.0]),
        key_burst=st.sampled_from([1, 1, 2, None]),
    ),
)
changed_settings = st.sampled_from(
    [
        *(None, None, None),
        ("paused_until",),
        ("max_inflight", "rate", "burst"),
        ("held_until", "probing"),
        ("key_max_inflight", "key_rate", "key_burst"),
    ]
)
verbs = st.sampled_from(["ack", "retry", "release", "fail", "ack", "retry"])
operator_calls = st.sampled_from(
    ["cancel", "requeue", "purge", "reap", "reap a few", "reap a worker", "trim", "cancel", "requeue"]
)
settlement_fields = st.fixed_dictionaries(
    {
        "lease": recent_index,
        "token_of": st.sampled_from([None, None, None, None, 0, 1, 3]),  # the lease whose token is used instead
        "verb": verbs,
        "delay": st.sampled_from(DELAYS),
        "run_at": st.sampled_from([None, None, START, START + MINUTE]),
        "budget": st.sampled_from([DAY, SECOND, 0]),
        "error": st.sampled_from(["", "boom"]),
        "crashed": st.booleans(),
        "hold_key": st.booleans(),
        "detail": st.sampled_from(["", "by hand"]),
        "started_at": st.sampled_from([None, START + 5]),
        "times": st.sampled_from([1, 1, 1, 2]),
    }
)
change_fields = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b"]),
        "value": st.sampled_from([b"1", b"2", None]),
        "version": recent_index,
        "ttl": st.sampled_from([None, 1, SECOND, DAY]),
    }
)

DEFAULT_SETTLEMENT: Fields = {
    "delay": 0,
    "run_at": None,
    "budget": DAY,
    "error": "boom",
    "crashed": False,
    "hold_key": False,
    "detail": "",
    "started_at": None,
}
