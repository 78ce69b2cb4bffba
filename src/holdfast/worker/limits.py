"""What a child process, and one attempt in it, may use; and when a child process is replaced."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta

from holdfast.model import bounds

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of each child process. None sets no limit.

    The kernel enforces memory and files: a handler that exceeds them gets a ``MemoryError`` or an ``OSError``, and its
    attempt fails. The worker enforces processor time, for handlers without a ``cpu`` limit: an attempt that has used
    it up is stopped as at a timeout.
    """

    memory: int | None = None  # bytes of address space
    cpu: timedelta | None = None  # processor time of one attempt
    files: int | None = None  # open file descriptors

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for a limit so small that Python itself could not run."""
        bounds.check_optional_integer("memory", self.memory, least=64 * MEBIBYTE, most=2**62)
        bounds.check_optional_integer("files", self.files, least=32, most=1 << 20)
        if self.cpu is not None:
            bounds.duration_from("cpu", self.cpu, least=1)

    def apply(self) -> None:
        """Set the kernel's limits of this process. They cannot be raised again."""
        import resource  # noqa: PLC0415 - missing on some systems, and a producer does not need it

        wanted = (
            (resource.RLIMIT_AS, self.memory),
            (resource.RLIMIT_NOFILE, self.files),
        )
        for kind, value in wanted:
            if value is not None:
                _, hard = resource.getrlimit(kind)
                resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecycleLimits:
    """When a child process exits to be replaced: after ``jobs`` jobs, or above ``memory`` bytes of memory."""

    jobs: int | None = None
    memory: int | None = None

    def is_reached(self, jobs: int) -> bool:
        """Whether this process, after ``jobs`` jobs, is to be replaced."""
        return (self.jobs is not None and jobs >= self.jobs) or (
            self.memory is not None and peak_memory_bytes() > self.memory
        )


def peak_memory_bytes() -> int:
    """Return the largest resident size that this process has had."""
    import resource  # noqa: PLC0415

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
