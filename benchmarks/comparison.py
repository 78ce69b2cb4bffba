"""How a ratio is measured: the two sides take turns, so that other load on the machine slows both of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One measured ratio and its target."""

    question: str
    ratio: float
    target: float
    at_least: bool  # whether the target is a minimum; otherwise it is a maximum
    ours: str
    other: str
    latencies: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # for a plot: median and p99, in seconds
    rates: Mapping[str, float] = field(default_factory=dict)  # for a plot: jobs per second

    @property
    def meets_target(self) -> bool:
        """Whether the ratio is on the right side of its target."""
        return self.ratio >= self.target if self.at_least else self.ratio <= self.target

    def to_json(self) -> dict[str, object]:
        """The comparison as a JSON object."""
        return {**asdict(self), "meets_target": self.meets_target}


def compare_throughput(
    question: str,
    *,
    jobs: int,
    rounds: int,
    ours: Callable[[], float],
    other: Callable[[], float],
    target: float,
) -> Comparison:
    """Our jobs per second divided by the other side's. Each callable runs ``jobs`` jobs and returns the seconds.

    The sides take turns, and the best round of each counts: other load can only make a round slower, so the fastest
    round is closest to the cost of the code itself.
    """
    pairs = [(ours(), other()) for _ in range(rounds)]
    our_seconds, other_seconds = (min(seconds) for seconds in zip(*pairs, strict=True))
    return Comparison(
        question=question,
        ratio=other_seconds / our_seconds,
        target=target,
        at_least=True,
        ours=f"{jobs / our_seconds:,.0f} jobs/s",
        other=f"{jobs / other_seconds:,.0f} jobs/s",
    )


def compare_single_calls(
    question: str, *, calls: int, rounds: int, ours: Callable[[], float], other: Callable[[], float], target: float
) -> Comparison:
    """Our calls per second divided by the other side's. Each callable makes ``calls`` calls and returns the seconds.

    The median of the ratios of all rounds counts. Most of a durable call is the wait for the disk, which varies from
    round to round more than the two sides differ, and is the same for both sides of a round.
    """
    pairs = [(ours(), other()) for _ in range(rounds)]
    our_seconds, other_seconds = (median(seconds) for seconds in zip(*pairs, strict=True))
    return Comparison(
        question=question,
        ratio=median(other_seconds / our_seconds for our_seconds, other_seconds in pairs),
        target=target,
        at_least=True,
        ours=f"{calls / our_seconds:,.0f} jobs/s",
        other=f"{calls / other_seconds:,.0f} jobs/s",
    )


def compare_latency(
    question: str,
    *,
    ours: Sequence[float],
    other: Sequence[float],
    target: float,
    share: float = 0.99,
    names: tuple[str, str] | None = None,
) -> Comparison:
    """A percentile of our seconds divided by the same percentile of the other side's; ``names`` are for a plot."""
    our_seconds, other_seconds = percentile(ours, share), percentile(other, share)
    return Comparison(
        question=question,
        ratio=our_seconds / other_seconds,
        target=target,
        at_least=False,
        ours=f"p{share * 100:.0f} {our_seconds * 1000:.2f} ms",
        other=f"p{share * 100:.0f} {other_seconds * 1000:.2f} ms",
        latencies={
            name: (percentile(samples, 0.5), percentile(samples, 0.99))
            for name, samples in zip(names or (), (ours, other), strict=False)
        },
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of all values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
