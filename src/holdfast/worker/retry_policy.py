"""Whose retry policy counts: the job's own, else its handler's, else the worker's. Every engine asks here."""

from __future__ import annotations

import logging
from functools import lru_cache

from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.request import META_RETRY
from holdfast.model.retry import BuiltInPolicy, RetryPolicy, parse
from holdfast.worker.catalogue import Handler

log = logging.getLogger("holdfast.worker")

KNOWN = 256  # texts that are parsed once; a store has few


def policy_of(job: JobRecord, handler: Handler | None, usual: RetryPolicy) -> RetryPolicy:
    """The policy for the next run of a job. A stored text that is none is passed over, and told once."""
    carried = job.meta.get(META_RETRY)
    own = None if carried is None else _read(carried if isinstance(carried, str) else f"no text: {carried!r:.80}")
    return own or (handler.retry if handler is not None else None) or usual


@lru_cache(maxsize=KNOWN)
def _read(text: str) -> BuiltInPolicy | None:
    """Was checked when the job was enqueued; what no longer fits was changed since, or is of another version."""
    try:
        return parse(text)
    except InvalidInput as error:
        log.warning("retry.unreadable", extra={"error": str(error)})
        return None
