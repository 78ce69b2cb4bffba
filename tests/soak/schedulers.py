"""Schedulers in processes, on SQLite and PostgreSQL, killed again and again: each fire happens once."""

from __future__ import annotations

from pathlib import Path

from holdfast.testing.servers.postgres import PostgresServer
from tests.cron.test_killed_schedulers import run_killed_schedulers

SECONDS_PER_KILL = 4  # of virtual time: about what three schedulers do between two kills


def run_schedulers(folder: Path, *, kills: int) -> str:
    """Kill schedulers on both drivers; return what was seen."""
    seconds = kills * SECONDS_PER_KILL
    seen = run_killed_schedulers(f"sqlite:///{folder}/schedulers.db", kills=kills, seed=1, seconds=seconds)
    with PostgresServer() as server:
        url = server.create_database("schedulers")
        run_killed_schedulers(url, kills=kills, seed=2, seconds=seconds)
    return f"3 schedulers, {kills} SIGKILLs on SQLite and as many on PostgreSQL: {seen}"
