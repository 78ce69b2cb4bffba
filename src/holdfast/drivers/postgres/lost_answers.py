"""Reserves whose answers were lost: the store may have leased jobs that nobody knows.

Such a lease would expire, and a job on its last attempt would be dead though nobody had begun it. The random bytes of
the tokens are made here, so the leases of a lost call can be found and released.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from holdfast.clock import monotonic
from holdfast.drivers.postgres.arrays import Texts
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.errors import is_connection_lost

MAX_LOST_CALLS = 64  # remembered at a time; of more, the leases of the oldest ones expire


@dataclass(frozen=True, slots=True)
class LostCall:
    """A reserve that the server may have carried out."""

    queues: Texts
    worker: str
    token_bytes: bytes
    lost_at: float


class LostAnswers:
    """The lost calls of one store and space."""

    def __init__(self) -> None:
        self._calls: deque[LostCall] = deque(maxlen=MAX_LOST_CALLS)

    @contextmanager
    def watch(self, queues: Texts, worker: str, token_bytes: bytes) -> Iterator[None]:
        """Remember the call in the body if it ends without an answer of the server."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, psycopg.Error) or is_connection_lost(error):
                self._calls.append(LostCall(queues, worker, token_bytes, monotonic()))
            raise

    def release(self, database: Database, caller_now: int | None) -> None:
        """Release the leases of the lost calls. Does nothing, and sends nothing, if no answer was lost."""
        for _ in range(len(self._calls)):
            try:
                call = self._calls.popleft()
            except IndexError:  # another thread releases them
                return
            released = 0
            try:
                arguments = caller_now, call.queues, call.worker, call.token_bytes
                [(released,)] = database.call("release_lost", *arguments)
            finally:
                if not released and monotonic() < call.lost_at + database.timing.lost_call_seconds:
                    self._calls.append(call)
