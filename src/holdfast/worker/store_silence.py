"""Notices a store that answers neither with a result nor with an error: a server that hangs, or lost packets."""

from __future__ import annotations


class StoreSilence:
    """How long the loop of a worker has waited for the store.

    One thread calls the store, another one watches it. The time is counted in polls of the second thread: a process
    that was stopped as a whole has not waited.
    """

    def __init__(self, report_seconds: float) -> None:
        """``report_seconds`` pass before a silence is reported, and between two reports."""
        self._report_seconds = report_seconds
        self._answers = 0
        self._seen_answers = 0
        self._silent_seconds = 0.0
        self._reported_seconds = 0.0

    def answered(self) -> None:
        """The loop has come round."""
        self._answers += 1

    def poll(self, seconds: float) -> float | None:
        """Add the time since the last poll. Returns how long the store has been silent, if it is time for a report."""
        if self._answers != self._seen_answers:
            self._seen_answers = self._answers
            self._silent_seconds = self._reported_seconds = 0.0
            return None
        self._silent_seconds += seconds
        if self._silent_seconds - self._reported_seconds < self._report_seconds:
            return None
        self._reported_seconds = self._silent_seconds
        return self._silent_seconds
