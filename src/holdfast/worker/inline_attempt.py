"""Attempts in the process of the worker itself, for ``process_once``: no child, no interruption."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from holdfast.clock import monotonic
from holdfast.wire.job_message import job_message
from holdfast.worker.attempt import attempt
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.event_loop import LocalLoop
from holdfast.worker.outcome import Outcome
from holdfast.worker.processes.running import Run
from holdfast.worker.resources import Resources


class InlineAttempts:
    """Runs one attempt at a time. The resources and the event loop stay open between two attempts."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._resources = Resources(catalogue.resources)
        self._loop = LocalLoop(self._resources.aclose)

    def run(self, run: Run) -> Outcome:
        """Call the handler, and return the outcome."""
        began = monotonic()
        try:
            return attempt(
                self._catalogue,
                self._resources,
                job_message(run.reservation),
                run.add_note,
                run_coroutine=self._run_coroutine,
                add_output=run.set_output,
            )
        finally:
            run.seconds = monotonic() - began

    def _run_coroutine(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run an async handler. The event loop stays open while async resources are on it."""
        try:
            return self._loop.run(coroutine)
        finally:
            if not self._resources.is_on_loop:
                self._loop.close()

    def close(self) -> None:
        """Close the resources."""
        self._loop.close()
        self._resources.close()
