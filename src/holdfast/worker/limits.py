"""What a child process, and one attempt in it, may use."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta

from holdfast.model import bounds

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None leaves a limit as it is.

    Memory and files are set by the kernel on each child: what is refused is a ``MemoryError`` or an ``OSError`` in the
    handler, and a failed attempt. Processor time is that of one attempt, for handlers that have no ``cpu`` of their
    own: the worker watches it, and stops an attempt that has used it up as it does at a timeout.
    """

    memory: int | None = None  # bytes of address space
    cpu: timedelta | None = None  # processor time of one attempt
    files: int | None = None  # open descriptors

    def __post_init__(self) -> None:
        """Nothing so small that Python itself could not run."""
        bounds.check_optional_integer("memory", self.memory, least=64 * MEBIBYTE, most=2**62)
        bounds.check_optional_integer("files", self.files, least=32, most=1 << 20)
        if self.cpu is not None:
            bounds.duration_from("cpu", self.cpu, least=1)

    def apply(self) -> None:
        """To this process, for good."""
        import resource  # noqa: PLC0415 - not on every system, and a producer needs none of this

        wanted = (
            (resource.RLIMIT_AS, self.memory),
            (resource.RLIMIT_NOFILE, self.files),
        )
        for kind, value in wanted:
            if value is not None:
                _, hard = resource.getrlimit(kind)
                resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """When a child process ends by itself, to be replaced: after so many jobs, or above so many bytes of memory."""

    jobs: int | None = None
    memory: int | None = None

    def is_over(self, jobs: int) -> bool:
        """Asked after each job, of the process itself."""
        return (self.jobs is not None and jobs >= self.jobs) or (
            self.memory is not None and most_memory_so_far() > self.memory
        )


def most_memory_so_far() -> int:
    """The largest resident size this process has had, in bytes."""
    import resource  # noqa: PLC0415

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
