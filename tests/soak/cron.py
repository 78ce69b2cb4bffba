"""Three schedulers for 400 days, killed at random: their jobs are exactly the fires that an enumeration finds.

The soak ``schedulers`` kills real processes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.cron.simulation import ZONES, simulate

DAYS = 400
SQLITE_DAYS = 40  # each commit is synced to the disk
START = datetime(2026, 3, 1, tzinfo=UTC)
SEED = 20_260_301
OUTAGE_CHANCE = 0.002  # of a step


def run_cron(folder: Path, scale: float) -> str:
    days, sqlite_days = max(2, int(DAYS * scale)), max(2, int(SQLITE_DAYS * scale))
    report = simulate(SEED, start=START, days=days, outage_chance=OUTAGE_CHANCE)
    url = f"sqlite:///{folder}/cron.db"
    on_sqlite = simulate(SEED, start=datetime(2026, 10, 1, tzinfo=UTC), days=sqlite_days, url=url)
    return (
        f"{days} days with three schedulers in {len(ZONES)} zones: {report.fires:,} fires, {report.ticks:,} ticks, "
        f"{report.kills:,} kills, {report.steps_back:,} steps back; {sqlite_days} days on SQLite with "
        f"{on_sqlite.fires:,} fires and {on_sqlite.kills:,} kills: none missing, none twice"
    )
