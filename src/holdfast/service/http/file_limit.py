"""The limit of open files (``ulimit -n``): each connection is one, and the store and the artifacts need some."""

from __future__ import annotations

import resource
from contextlib import suppress

OTHER_FILES = 320  # of the store, artifacts under way, callbacks and the interpreter


def fit_connections(wanted: int) -> int:
    """Return how many of these connections may be open. Raises the soft limit of the process if they do not fit.

    With a very low hard limit, half of the files are for connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has a limit that is not the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    return max(soft - OTHER_FILES, soft // 2)
