"""What a handler is told beside its payload, and what it can tell in return."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import Job
from holdfast.wire.codec import JSON
from holdfast.worker.catalogue import Resources


class Context:
    """One attempt, as its handler sees it."""

    def __init__(
        self,
        job: Job,
        *,
        checkpoint: bytes | None,
        resources: Resources,
        note: Callable[[bytes | None, bytes | None], None],
    ) -> None:
        self.job = job
        self.resources = resources
        self.cancelled = False  # set when the attempt was asked to stop; what it writes from then on may be refused
        self._checkpoint = None if checkpoint is None else JSON.decode(checkpoint, field="checkpoint")
        self._note = note

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that says which job and attempt it speaks of."""
        extra = {"job_id": self.job.id, "attempt": self.job.attempt}
        return logging.LoggerAdapter(logging.getLogger(f"holdfast.job.{self.job.type}"), extra)

    @property
    def payload(self) -> object:
        """The payload, as JSON."""
        return self.job.payload

    @property
    def attempt(self) -> int:
        """Which run of the job this is, from 1."""
        return self.job.attempt

    @property
    def fence(self) -> int:
        """Larger in every later lease: hand it to whatever you write to."""
        return self.job.fence

    def progress(self, done: int, total: int | None = None, message: str = "") -> None:
        """Tell how far the attempt is; it travels with the next heartbeat."""
        if total is not None and not 0 <= done <= total:
            raise InvalidInput("progress", wanted=f"from 0 to {total}", got=done)
        told = {"done": done, "total": total, "message": bounds.truncate_text(message, bounds.MAX_REASON_CHARACTERS)}
        self._note(JSON.encode(told, field="progress"), None)

    @property
    def checkpoint(self) -> Any:
        """What an earlier attempt, or this one, has kept; None if nothing."""
        return self._checkpoint

    @checkpoint.setter
    def checkpoint(self, value: object) -> None:
        """Keep a JSON value for later attempts; it travels with the next heartbeat, and at the latest with the end."""
        data = bounds.check_blob("checkpoint", JSON.encode(value, field="checkpoint"), most=bounds.MAX_NOTE_BYTES)
        self._checkpoint = value
        self._note(None, data)
