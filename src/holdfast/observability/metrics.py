"""Metrics: the interface of a collector, and a collector in memory.

Holdfast reports every number once, here, whatever the driver::

    app = Holdfast("sqlite:///jobs.db", metrics=InMemoryMetrics())

or, with the name of an object in the settings, ``metrics = "my_module:collector"``. The names and labels are those of
``metric_table.METRICS``.
"""

from __future__ import annotations

import importlib
import threading
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from holdfast.errors import InvalidInput
from holdfast.observability.metric_table import METRICS, Kind

Labels = Mapping[str, str]


@runtime_checkable
class Metrics(Protocol):
    """A collector. The methods are called once per batch of jobs, by several threads, and must return quickly.

    An exception is logged, and changes nothing for the jobs.
    """

    def count(self, name: str, value: float, labels: Labels, /) -> None:
        """Add ``value`` to a counter."""
        ...

    def observe(self, name: str, values: Sequence[float], labels: Labels, /) -> None:
        """Add values to a histogram."""
        ...

    def gauge(self, name: str, value: float, labels: Labels, /) -> None:
        """Set a gauge."""
        ...


@dataclass(slots=True)
class Histogram:
    """Observed values: how many are at most each bound of a bucket and above the bound before; their sum."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)  # one per bound, then one for all larger values
    total: float = 0.0

    def __post_init__(self) -> None:
        """Begin with empty buckets."""
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self.counts)

    def add(self, values: Sequence[float]) -> None:
        """Add values. They are sorted, so that a bucket costs one search, however many values there are."""
        self.total += sum(values)
        ordered, below = sorted(values), 0
        for place, bound in enumerate(self.bounds):
            up_to = bisect_right(ordered, bound)
            self.counts[place] += up_to - below
            below = up_to
        self.counts[-1] += len(ordered) - below

    def copy(self) -> Histogram:
        """Return a histogram that does not change any more."""
        return Histogram(self.bounds, list(self.counts), self.total)


class InMemoryMetrics:
    """Adds everything up in memory. For tests, and as the source of an exporter."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, dict[tuple[str, ...], float]] = {}
        self._histograms: dict[str, dict[tuple[str, ...], Histogram]] = {}

    def count(self, name: str, value: float, labels: Labels, /) -> None:
        """Add ``value`` to a counter in memory."""
        key = _key(name, labels)
        with self._lock:
            series = self._numbers.setdefault(name, {})
            series[key] = series.get(key, 0) + value

    def observe(self, name: str, values: Sequence[float], labels: Labels, /) -> None:
        """Add values to a histogram in memory."""
        key = _key(name, labels)
        with self._lock:
            series = self._histograms.setdefault(name, {})
            if key not in series:
                series[key] = Histogram(METRICS[name].buckets)
            series[key].add(values)

    def gauge(self, name: str, value: float, labels: Labels, /) -> None:
        """Set a gauge in memory."""
        key = _key(name, labels)
        with self._lock:
            self._numbers.setdefault(name, {})[key] = value

    def replace(self, name: str, series: Mapping[tuple[str, ...], float | Histogram]) -> None:
        """Replace all series of a metric, by the values of their labels: totals that were added up elsewhere."""
        with self._lock:
            self._numbers[name] = {key: one for key, one in series.items() if not isinstance(one, Histogram)}
            self._histograms[name] = {key: one.copy() for key, one in series.items() if isinstance(one, Histogram)}

    def value(self, name: str, **labels: str) -> float:
        """Return a counter, a gauge, or how many values a histogram has: the sum over all series with these labels."""
        return sum(
            series.count if isinstance(series, Histogram) else series
            for present, series in self.series(name)
            if labels.items() <= present.items()
        )

    def series(self, name: str) -> list[tuple[dict[str, str], float | Histogram]]:
        """Return every series of a metric: its labels, and its number or histogram."""
        names = METRICS[name].labels
        with self._lock:
            if METRICS[name].kind is Kind.HISTOGRAM:
                histograms = self._histograms.get(name, {})
                return [(dict(zip(names, key, strict=True)), one.copy()) for key, one in histograms.items()]
            numbers = self._numbers.get(name, {})
            return [(dict(zip(names, key, strict=True)), number) for key, number in numbers.items()]


def _key(name: str, labels: Labels) -> tuple[str, ...]:
    """Return the values of the labels, in the order of the table."""
    return tuple([labels[label] for label in METRICS[name].labels])


def load_metrics(path: str) -> Metrics:
    """Return the collector of the setting ``metrics``: an object of a module, or an instance of a class.

    Raises ``InvalidInput`` if there is none.
    """
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # an import inside the module
        raise InvalidInput("metrics", wanted=f"a module {module} on the Python path", got="none") from error
    except AttributeError as error:
        raise InvalidInput("metrics", wanted=f"{name} in the module {module}", got="none") from error
    return check_metrics(found() if isinstance(found, type) else found)


def check_metrics(collector: object) -> Metrics:
    """Return the collector. Raises ``InvalidInput`` for an object that is none."""
    if not isinstance(collector, Metrics):
        raise InvalidInput("metrics", wanted="an object with count, observe and gauge", got=collector)
    return collector
