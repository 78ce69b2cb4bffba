"""Which retry policy applies to a job: its own, else its handler's, else the worker's."""

from __future__ import annotations

from functools import lru_cache

from holdfast.errors import InvalidInput
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model.job import JobRecord
from holdfast.model.request import META_RETRY
from holdfast.model.retry import BuiltInPolicy, RetryPolicy, parse
from holdfast.worker.catalogue import Handler

CACHED_POLICIES = 256  # parsed texts; a store has few different ones


def policy_of(job: JobRecord, handler: Handler | None, default: RetryPolicy) -> RetryPolicy:
    """Return the policy for the next attempt of a job. A stored text that is no policy is skipped, and logged once."""
    stored = job.meta.get(META_RETRY)
    own = None if stored is None else _parse(stored if isinstance(stored, str) else f"no text: {stored!r:.80}")
    return own or (handler.retry if handler is not None else None) or default


@lru_cache(maxsize=CACHED_POLICIES)
def _parse(text: str) -> BuiltInPolicy | None:
    """Parse a stored text. It was checked at enqueue: a bad one was changed since, or is from another version."""
    try:
        return parse(text)
    except InvalidInput as error:
        log_event(events.RETRY_UNREADABLE, reason=str(error))
        return None
