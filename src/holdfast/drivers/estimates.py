"""Counting jobs in bounded time: what is small is counted, what is large is estimated from a sample.

A driver reads three things of a large space: a sample of its rows, its lanes and its leases, each up to a limit. This
module joins them, in the same way for every driver (see ADR 0044).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.drivers.answers import QueueCounts
from holdfast.model.job import State

COUNT_LIMIT = 100_000  # jobs: a space with fewer open ones is counted, and reading them takes about 0.1 s
LANE_LIMIT = 1_000  # jobs of one lane, or leases of one queue, that are counted in a larger space
SAMPLE_ROWS = 20_000  # about the most that are sampled of one table

OPEN = frozenset({State.READY, State.INFLIGHT})
FEW = frozenset({State.DEAD, State.CANCELLED})
SCHEDULED = "scheduled"
WAITING = "waiting"  # ready, due, and without the turn of its domain: in no lane
WORDS = (State.READY, SCHEDULED, *(state for state in State if state is not State.READY))

Pair = tuple[str, str]  # queue and type
Counted = tuple[Pair, dict[str, int], bool]  # the numbers by word, and whether one of them is an estimate


@dataclass(slots=True)
class Estimate:
    """The numbers of the jobs of a large space, while they are collected: first the sample, then what was counted."""

    scale: float  # rows of the table per row of the sample
    sampled: defaultdict[Pair, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    counted: defaultdict[Pair, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    cut: set[tuple[Pair, str]] = field(default_factory=set)  # counts that stopped at their limit
    ages: dict[Pair, int] = field(default_factory=dict)

    def add_sample(self, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows of queue, type, word, number in the sample, and the age of the oldest job."""
        for queue, type_, word, number, age in rows:
            self.sampled[queue, type_][word] = round(number * self.scale)
            if age is not None and word in {State.READY, WAITING}:
                self._note_age((queue, type_), age)

    def add_lane(
        self,
        pair: Pair,
        due: int,
        age: int | None,
        *,
        later: int,
        parked: int,
        is_due_cut: bool,
        is_later_cut: bool,
    ) -> None:
        """Add the jobs of lanes. Of those that come ``later``, some are ``parked``: these are due."""
        self.add_counted(pair, State.READY, due + parked, is_cut=is_due_cut or (is_later_cut and parked > 0))
        self.add_counted(pair, SCHEDULED, later - parked, is_cut=is_later_cut)
        if age is not None:
            self._note_age(pair, age)

    def add_counted(self, pair: Pair, word: str, number: int, *, is_cut: bool) -> None:
        """Add jobs that were counted one by one; ``is_cut`` if the count stopped at its limit."""
        self.counted[pair][word] = self.counted[pair].get(word, 0) + number
        if is_cut:
            self.cut.add((pair, word))

    def rows(self, words: Collection[str]) -> Iterator[Counted]:
        """Return the numbers of each pair that has jobs."""
        for pair in self.counted.keys() | self.sampled.keys():
            sampled, numbers, is_estimate = self.sampled.get(pair, {}), {}, False
            for word in words:
                numbers[word] = self.counted.get(pair, {}).get(word, 0)
                if (pair, word) in self.cut:
                    numbers[word] = max(numbers[word], sampled.get(word, 0))
                    is_estimate = True
            waiting = sampled.get(WAITING, 0)  # stands in no lane: only the sample has it
            if waiting and State.READY in numbers:
                numbers[State.READY] += waiting
                is_estimate = True
            if any(numbers.values()):
                yield pair, numbers, is_estimate

    def sampled_rows(self, words: Collection[str]) -> Iterator[Counted]:
        """Return the numbers of the sample alone."""
        for pair, found in self.sampled.items():
            yield pair, {word: number for word, number in found.items() if word in words}, True

    def _note_age(self, pair: Pair, age: int) -> None:
        self.ages[pair] = max(age, self.ages.get(pair, age))


def open_words(states: Collection[State]) -> list[str]:
    """Return the words of these open states: ready jobs are due or scheduled."""
    return [word for state in states for word in ((state, SCHEDULED) if state is State.READY else (state,))]


def join_counts(open_jobs: Iterable[Counted], ended: Iterable[Counted], ages: Mapping[Pair, int]) -> list[QueueCounts]:
    """Return one row per queue and type, ordered by both."""
    numbers: defaultdict[Pair, dict[str, int]] = defaultdict(dict)
    estimated: set[Pair] = set()
    for pair, found, is_estimate in (*open_jobs, *ended):
        numbers[pair].update({word: number for word, number in found.items() if number})
        if is_estimate:
            estimated.add(pair)
    return [
        QueueCounts(
            queue=pair[0],
            type=pair[1],
            **found,
            oldest_ready_age=ages.get(pair) if found.get(State.READY) else None,
            is_estimate=pair in estimated,
        )
        for pair, found in sorted(numbers.items())
        if found
    ]


def merge(counted: Iterable[QueueCounts], estimated: Iterable[QueueCounts]) -> list[QueueCounts]:
    """Join rows about different states of the same queues and types."""
    rows = [*counted, *estimated]
    ages = {(row.queue, row.type): row.oldest_ready_age for row in rows if row.oldest_ready_age is not None}
    found = [((row.queue, row.type), {word: getattr(row, word) for word in WORDS}, row.is_estimate) for row in rows]
    return join_counts(found, (), ages)
