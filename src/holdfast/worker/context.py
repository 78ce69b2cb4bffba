"""The context of a handler: its job, shared resources, a logger, progress and checkpoint."""

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
    """One attempt as its handler sees it."""

    def __init__(
        self,
        job: Job,
        *,
        checkpoint: bytes | None,
        resources: Resources,
        add_note: Callable[[bytes | None, bytes | None], None],
    ) -> None:
        self.job = job
        self.resources = resources
        self.cancelled = False  # True once the attempt was asked to stop: its later writes may be refused
        self.stop_reason: str | None = None  # why it was asked to stop: a ``StopReason``
        self._checkpoint = None if checkpoint is None else JSON.decode(checkpoint, field="checkpoint")
        self._add_note = add_note

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the id of the job and the attempt."""
        extra = {"job_id": self.job.id, "attempt": self.job.attempt}
        return logging.LoggerAdapter(logging.getLogger(f"holdfast.job.{self.job.type}"), extra)

    @property
    def payload(self) -> object:
        """The payload as a JSON value."""
        return self.job.payload

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.job.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every lease. Pass it to the systems you write to: they can refuse a lower one."""
        return self.job.fence

    def progress(self, done: int, total: int | None = None, message: str = "") -> None:
        """Report progress. The next heartbeat sends it to the store."""
        if total is not None and not 0 <= done <= total:
            raise InvalidInput("progress", wanted=f"from 0 to {total}", got=done)
        progress = {
            "done": done,
            "total": total,
            "message": bounds.truncate_text(message, bounds.MAX_REASON_CHARACTERS),
        }
        self._add_note(JSON.encode(progress, field="progress"), None)

    @property
    def checkpoint(self) -> Any:
        """The checkpoint that this or an earlier attempt has set; None if there is none."""
        return self._checkpoint

    @checkpoint.setter
    def checkpoint(self, value: object) -> None:
        """Keep a JSON value for later attempts. Sent with the next heartbeat, at the latest when the attempt ends."""
        data = bounds.check_blob("checkpoint", JSON.encode(value, field="checkpoint"), most=bounds.MAX_NOTE_BYTES)
        self._checkpoint = value
        self._add_note(None, data)
