"""Three schedulers, killed at random between and inside their calls, enqueue exactly what an enumeration says.

`python3 run soak cron` runs the same for 400 days.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from holdfast.drivers.requests import Enqueue
from tests.cron.simulation import simulate
from tests.cron.stepped_store import SteppedStore

CHANGES = [  # of an offset in one of the zones, local date
    "2026-03-08",  # America/New_York: forward
    "2026-03-29",  # Europe/Berlin: forward
    "2026-04-05",  # Australia/Lord_Howe: back by half an hour
    "2026-10-04",  # Australia/Lord_Howe: forward by half an hour
    "2026-10-25",  # Europe/Berlin: back
    "2026-11-01",  # America/New_York: back
]


@pytest.mark.parametrize("day", CHANGES)
def test_every_fire_at_a_change_of_the_offset_has_one_job(day):
    start = datetime.fromisoformat(f"{day}T00:00:00+00:00") - timedelta(hours=12)
    report = simulate(int(day.replace("-", "")), start=start, days=1, kill_chance=0.05, step_minutes=30)
    assert report.fires > 150
    assert report.kills > 0


def test_every_fire_has_one_job_on_sqlite(tmp_path):
    start = datetime(2026, 10, 24, 18, tzinfo=UTC)
    report = simulate(7, start=start, days=1, url=f"sqlite:///{tmp_path}/jobs.db", kill_chance=0.05)
    assert report.kills > 0


def test_fires_of_hours_without_a_scheduler_are_made_up_for():
    start = datetime(2026, 10, 24, tzinfo=UTC)
    assert simulate(3, start=start, days=4, outage_chance=0.1).fires > 600


class WithoutVersions(SteppedStore):
    """A store that lets every scheduler write: it expects no version."""

    def do(self, request):
        if isinstance(request, Enqueue):
            request = replace(request, writes=[replace(change, version=None) for change in request.writes])
        return super().do(request)


def test_the_simulation_finds_a_store_that_lets_two_schedulers_fire():
    with pytest.raises(AssertionError, match=r"fires were sent twice|jobs too many"):
        simulate(1, start=datetime(2026, 10, 25, tzinfo=UTC), days=2, wrap=WithoutVersions)
