"""The order over all lanes, within the capacity that settings allow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.order import Capacity, Lane, Limit, pick
from holdfast.model.queue_settings import Bucket, QueueSettings

Position = tuple[int, int]

JOBS = st.lists(
    st.tuples(
        st.builds(Lane, st.sampled_from("qr"), st.sampled_from("tu"), st.sampled_from([0, 5, 9])), st.integers(0, 5)
    ),
    max_size=40,
).map(lambda jobs: [(lane, (available_at, seq)) for seq, (lane, available_at) in enumerate(jobs)])


def in_lanes(jobs: list[tuple[Lane, Position]]) -> list[tuple[Lane, Iterator[Position]]]:
    lanes: dict[Lane, list[Position]] = defaultdict(list)
    for lane, position in jobs:
        lanes[lane].append(position)
    return [(lane, iter(sorted(positions))) for lane, positions in lanes.items()]


def in_order(jobs: list[tuple[Lane, Position]]) -> list[tuple[Lane, Position]]:
    return sorted(jobs, key=lambda job: (-job[0].priority, *job[1]))


def capacity(**lefts: int) -> Capacity:
    """``q=3`` for a queue, ``q_t=3`` for a type in it."""
    keys = {tuple(name.split("_")): left for name, left in lefts.items()}
    limits = {(key[0], key[1] if len(key) > 1 else None): left for key, left in keys.items()}
    return Capacity({key: Limit(QueueSettings(max_inflight=99), 0, left) for key, left in limits.items()})


@given(JOBS, st.integers(1, 50))
def test_jobs_are_ordered_by_priority_then_time_then_arrival(jobs: list[tuple[Lane, Position]], limit: int):
    assert pick(in_lanes(jobs), limit=limit, capacity=Capacity()) == in_order(jobs)[:limit]


@given(JOBS, st.integers(1, 50), st.integers(0, 5), st.integers(0, 5))
def test_a_lane_without_capacity_is_skipped_and_the_others_keep_their_order(
    jobs: list[tuple[Lane, Position]], limit: int, queue_left: int, type_left: int
):
    taken = pick(in_lanes(jobs), limit=limit, capacity=capacity(q=queue_left, q_t=type_left))
    expected: list[tuple[Lane, Position]] = []
    by_queue: Counter[str] = Counter()
    by_type: Counter[tuple[str, str]] = Counter()
    for lane, position in in_order(jobs):
        full = lane.queue == "q" and (
            by_queue["q"] >= queue_left or (lane.type == "t" and by_type["q", "t"] >= type_left)
        )
        if not full and len(expected) < limit:
            by_queue[lane.queue] += 1
            by_type[lane.queue, lane.type] += 1
            expected.append((lane, position))
    assert taken == expected


def test_capacity_is_counted_for_the_queue_and_for_the_type():
    left = capacity(q=5, q_t=5, r=5)
    jobs = [(Lane("q", "t", 0), (0, 1)), (Lane("q", "u", 0), (0, 2)), (Lane("r", "t", 0), (0, 3))]
    pick(in_lanes(jobs), limit=10, capacity=left)
    assert {key: (limit.left, limit.taken) for key, limit in left.limits.items()} == {
        ("q", None): (3, 2),
        ("q", "t"): (4, 1),
        ("r", None): (4, 1),
    }


def test_a_lane_opens_when_the_last_pause_of_its_queue_and_type_has_ended():
    pauses = {("q", None): 100, ("q", "t"): 200, ("r", None): 300}
    limits = {key: Limit(QueueSettings(paused_until=until), None, 0) for key, until in pauses.items()}
    paused = Capacity(limits)
    opens_at = [paused.opens_at(Lane(queue, type_, 0), now=50) for queue, type_ in ("qt", "qu", "rt", "st")]
    assert opens_at == [200, 100, 300, 50]


def test_taken_jobs_are_subtracted_from_the_bucket():
    limit = Limit(QueueSettings(rate=2, burst=3), bucket=None, left=2)
    pick([(Lane("q", "t", 0), iter([(0, 1), (0, 2), (0, 3)]))], limit=5, capacity=Capacity({("q", None): limit}))
    assert (limit.taken, limit.bucket_after(now=100)) == (2, Bucket(level=1_000_000, at=100))


def counting(read: Counter[str], name: str) -> Iterator[Position]:
    for seq in range(1000):
        read[name] += 1
        yield (0, seq)


def test_at_most_one_job_more_is_read_from_a_lane_than_is_taken():
    read: Counter[str] = Counter()
    lanes = [(Lane("q", name, 5), counting(read, name)) for name in ("a", "b")]
    assert len(pick(lanes, limit=7, capacity=Capacity())) == 7
    assert all(count <= 7 for count in read.values())
    assert sum(read.values()) <= 9


def test_a_lower_priority_is_not_read_while_a_higher_one_fills_the_batch():
    read: Counter[str] = Counter()
    lanes = [(Lane("q", "low", 0), counting(read, "low")), (Lane("q", "high", 9), counting(read, "high"))]
    assert {lane.type for lane, _ in pick(lanes, limit=3, capacity=Capacity())} == {"high"}
    assert read["low"] == 0


def test_at_most_one_job_is_read_from_a_lane_without_capacity():
    read: Counter[str] = Counter()
    assert pick([(Lane("q", "t", 0), counting(read, "t"))], limit=3, capacity=capacity(q=0)) == []
    assert read["t"] <= 1
