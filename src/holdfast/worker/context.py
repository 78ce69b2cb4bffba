"""The context of a handler: its job, shared resources, a logger, progress and checkpoint."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

from holdfast.errors import ContextClosed, InvalidInput
from holdfast.model import bounds
from holdfast.model.job import Job
from holdfast.wire.codec import JSON
from holdfast.worker import job_log
from holdfast.worker.resources import Resources

LEASE_LOST = "lease lost"  # a ``stop_reason``
_making_lock = threading.RLock()


class Context:
    """One attempt as its handler sees it. Any thread of the handler may use it until the attempt has ended."""

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
        self.stop_reason: str | None = None  # why the attempt was asked to stop: a ``StopReason``
        self.is_lease_over: Callable[[], bool] = lambda: False  # for the process that runs the attempt
        self._checkpoint = None if checkpoint is None else JSON.decode(checkpoint, field="checkpoint")
        self._add_note = add_note
        self._pid = os.getpid()
        self._lock: threading.RLock | None = None  # made for the first report: most attempts have none
        self._has_ended = False

    @cached_property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry the fields of the job: id, type, queue, attempt, fence and worker."""
        return job_log.logger_of(self.job)

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should stop: it was asked to, or its lease may be over. Later writes may be refused."""
        if self.stop_reason is None and self.is_lease_over():  # the worker is stopped, and cannot ask
            self.stop_reason = LEASE_LOST
        return self.stop_reason is not None

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
        self._send_note(JSON.encode(progress, field="progress"), None)

    @property
    def checkpoint(self) -> Any:
        """The checkpoint that this or an earlier attempt has set; None if there is none."""
        return self._checkpoint

    @checkpoint.setter
    def checkpoint(self, value: object) -> None:
        """Keep a JSON value for later attempts. Sent with the next heartbeat, at the latest when the attempt ends."""
        data = bounds.check_blob("checkpoint", JSON.encode(value, field="checkpoint"), most=bounds.MAX_NOTE_BYTES)
        self._send_note(None, data)
        self._checkpoint = value

    def _send_note(self, progress: bytes | None, checkpoint: bytes | None) -> None:
        if os.getpid() != self._pid:  # before the lock: a thread that was not forked may hold it
            raise ContextClosed(
                self.job.id, "only the process that runs the attempt can report, not one that it forked"
            )
        if self._lock is None:
            with _making_lock:  # reentrant: a signal handler of the user may report in the middle of a report
                self._lock = self._lock or threading.RLock()
        with self._lock:
            if self._has_ended:
                raise ContextClosed(self.job.id, "the attempt has ended")
            self._add_note(progress, checkpoint)

    def close(self) -> None:
        """Refuse all later reports, and wait for one that a thread is sending: the attempt has ended."""
        self._has_ended = True
        if self._lock is not None and os.getpid() == self._pid:
            with self._lock:
                pass
