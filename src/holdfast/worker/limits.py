"""What a child process may use, and when it is better replaced."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta

from holdfast.model import bounds

MEBIBYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Set by the kernel on each child, so that no handler can exceed them; None leaves a limit as it is.

    Memory that is refused is a ``MemoryError`` in the handler, and a failed attempt. The time is that of the processor,
    over the life of the child: a child that has used it up is ended by SIGXCPU, which is a crash of the job it ran.
    """

    memory: int | None = None  # bytes of address space
    cpu: timedelta | None = None
    files: int | None = None  # open descriptors

    def __post_init__(self) -> None:
        """Nothing so small that Python itself could not run."""
        bounds.optional_integer("memory", self.memory, least=64 * MEBIBYTE, most=2**62)
        bounds.optional_integer("files", self.files, least=32, most=1 << 20)
        if self.cpu is not None:
            bounds.length("cpu", self.cpu, least=1_000_000)

    def apply(self) -> None:
        """To this process, for good."""
        import resource  # noqa: PLC0415 - not on every system, and a producer needs none of this

        wanted = (
            (resource.RLIMIT_AS, self.memory),
            (resource.RLIMIT_CPU, None if self.cpu is None else int(self.cpu.total_seconds())),
            (resource.RLIMIT_NOFILE, self.files),
        )
        for kind, value in wanted:
            if value is not None:
                _, hard = resource.getrlimit(kind)
                resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def most_memory_so_far() -> int:
    """The largest resident size this process has had, in bytes."""
    import resource  # noqa: PLC0415

    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
