"""How a ratio is measured: both sides in turn, round by round, so that a noisy machine disturbs them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was asked, what came out, and what is wanted of it."""

    question: str
    ratio: float
    wanted: float
    at_least: bool  # or at most
    ours: str
    other: str
    times: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # for a plot: median and p99, in seconds

    @property
    def good(self) -> bool:
        """Whether the ratio is as wanted."""
        return self.ratio >= self.wanted if self.at_least else self.ratio <= self.wanted

    def as_dict(self) -> dict[str, object]:
        """For ``--json``."""
        return {**asdict(self), "good": self.good}


def throughput(
    question: str,
    *,
    jobs: int,
    rounds: int,
    ours: Callable[[], float],
    other: Callable[[], float],
    wanted: float,
) -> Answer:
    """Our jobs per second over the other side's; each callable runs ``jobs`` jobs and gives the seconds it took.

    The sides take turns, and the best round of each counts: others on the machine can only make a round slower, so the
    quickest is the nearest to what the code itself needs.
    """
    pairs = [(ours(), other()) for _ in range(rounds)]
    mine, theirs = (min(seconds) for seconds in zip(*pairs, strict=True))
    return Answer(
        question=question,
        ratio=theirs / mine,
        wanted=wanted,
        at_least=True,
        ours=f"{jobs / mine:,.0f} jobs/s",
        other=f"{jobs / theirs:,.0f} jobs/s",
    )


def latency(
    question: str,
    *,
    ours: Sequence[float],
    other: Sequence[float],
    wanted: float,
    share: float = 0.99,
    names: tuple[str, str] | None = None,
) -> Answer:
    """A percentile of our seconds over the same of the other side's; with ``names`` for a plot of both."""
    mine, theirs = percentile(ours, share), percentile(other, share)
    return Answer(
        question=question,
        ratio=mine / theirs,
        wanted=wanted,
        at_least=False,
        ours=f"p{share * 100:.0f} {mine * 1000:.2f} ms",
        other=f"p{share * 100:.0f} {theirs * 1000:.2f} ms",
        times={
            name: (percentile(taken, 0.5), percentile(taken, 0.99))
            for name, taken in zip(names or (), (ours, other), strict=False)
        },
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of all values lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]
