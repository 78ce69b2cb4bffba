"""Processes that share the domains of a work lease are killed at random: every offset is processed, none is stuck."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

from holdfast.testing.servers.postgres import PostgresServer
from tests.ordering.orchestrator_process import check_processes, start

PROCESSES = 4
TIMEOUT_SECONDS = 1800


def run_work_lease(folder: Path, *, count: int) -> str:
    """Kill a process every 0.3 to 1.5 s, on SQLite and on PostgreSQL; return the summary."""
    kills = _run_kills(f"sqlite:///{folder}/jobs.db", count)
    with PostgresServer() as server:
        kills += _run_kills(server.url, count)
    return f"work lease on SQLite and PostgreSQL, {2 * 3 * count:,} offsets, {kills} SIGKILLs: all processed, in order"


def _run_kills(url: str, count: int) -> int:
    dice = random.Random(count)
    lines: list[list[str]] = []
    lock = threading.Lock()
    names = iter(range(10**9))
    kills = 0

    def read(process) -> None:
        for line in process.stdout:
            words = line.split()
            if len(words) == 4:  # a killed process may leave half a line
                with lock:
                    lines.append(words)

    def begin():
        process = start(url, f"w{next(names)}", count=count)
        reader = threading.Thread(target=read, args=(process,))
        reader.start()
        return process, reader

    running, ended = [begin() for _ in range(PROCESSES)], []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while all(process.poll() is None for process, _ in running):
        assert time.monotonic() < deadline
        time.sleep(dice.uniform(0.3, 1.5))
        place = dice.randrange(PROCESSES)
        ended.append(running[place])
        running[place][0].send_signal(signal.SIGKILL)
        kills += 1
        running[place] = begin()
    for process, reader in (*running, *ended):  # one has found all offsets ended; the others find it too
        process.wait(TIMEOUT_SECONDS)
        reader.join(TIMEOUT_SECONDS)
        process.stdin.close()
        process.stdout.close()
    assert all(process.returncode in (0, -signal.SIGKILL) for process, _ in (*running, *ended))
    check_processes(url, lines, count=count)
    return kills
