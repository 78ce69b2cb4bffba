"""Processes that share the domains of one store, and what must be true when all offsets have ended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import holdfast
from holdfast.ordering import AlreadyProcessed, WorkLease
from tests.ordering import orchestrator


def start(url: str, owner: str, *, count: int, hold: int = 0) -> subprocess.Popen[str]:
    """Start a process that works until all offsets have ended; with ``hold``, until it holds its so many-th lease."""
    command = [sys.executable, orchestrator.__file__, url, owner, str(count), str(hold)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def check_processes(url: str, lines: Sequence[Sequence[str]], *, count: int) -> None:
    """Every offset was processed, no fence was given twice, and a held offset was taken over with a larger fence."""
    acquired = [(domain, int(fence), int(offset)) for word, domain, offset, fence in lines if word == "acquired"]
    held = [(domain, int(fence), int(offset)) for word, domain, offset, fence in lines if word == "holding"]
    assert len({(domain, fence) for domain, fence, _ in acquired}) == len(acquired)
    for domain, fence, offset in held:
        assert any(other[0] == domain and other[2] == offset and other[1] > fence for other in acquired)
    with holdfast.connect(url) as store:
        lease = WorkLease(max_retries=0, store=store)
        for domain in orchestrator.DOMAINS:
            state = lease.state(domain)
            assert (state.processed, state.failed, state.backlog, state.lease) == (set(range(count)), set(), (), None)
            assert lease.try_acquire(domain, 3) == AlreadyProcessed()
