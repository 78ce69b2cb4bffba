"""``EnqueueCounter``: an enqueue middleware that counts new jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.observability import metric_table as table
from holdfast.observability.labels import BoundedNames, JobNames, job_labels
from holdfast.observability.metrics import Metrics
from holdfast.observability.metrics_group import GuardedMetrics


class EnqueueCounter:
    """Counts the new jobs of every enqueue, once per call. An exception of the collector does not reach the caller."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = GuardedMetrics(metrics)
        self._bounded = BoundedNames()

    def __call__(
        self, requests: Sequence[JobRequest], call_next: Callable[[Sequence[JobRequest]], list[Enqueued]]
    ) -> list[Enqueued]:
        """Store the jobs, then count those that are new."""
        answers = call_next(requests)
        counts: Counter[JobNames] = Counter()
        if len(requests) == 1:  # of one job, or the template of many
            [request] = requests
            counts[request.queue, request.type] = sum(not answer.existed for answer in answers)
        else:
            pairs = zip(requests, answers, strict=True)
            counts.update((request.queue, request.type) for request, answer in pairs if not answer.existed)
        for names, count in counts.items():
            if count:
                self._metrics.count(table.ENQUEUED.name, count, job_labels(self._bounded(names)))
        return answers
