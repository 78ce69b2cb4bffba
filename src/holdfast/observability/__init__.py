"""What operators see of a worker: its log. Each part is a ``WorkerObserver``; ``observers_of`` composes them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.observability.log_format import JobFields, JsonFormatter, TerminalFormatter
from holdfast.observability.logs import LogObserver
from holdfast.observability.redaction import Redaction
from holdfast.worker.observer import WorkerObserver

__all__ = ["JobFields", "JsonFormatter", "LogObserver", "Redaction", "TerminalFormatter", "observers_of"]


def observers_of() -> Sequence[WorkerObserver]:
    """Return the observers of a worker of an app."""
    return [LogObserver()]
