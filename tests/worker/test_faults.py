"""Workers as processes that are killed and restarted: the scenarios of ``run soak``, with small numbers."""

from tests.soak.hostile_handlers import run_hostile_handlers
from tests.soak.ordered import run_ordered
from tests.soak.poison import run_poison
from tests.soak.random_kills import run_random_kills
from tests.soak.rolling_restarts import run_rolling_restarts


def test_workers_that_are_killed_and_stopped_lose_and_repeat_nothing(tmp_path):
    print(run_random_kills(tmp_path, workers=4, jobs=300, seconds=3))


def test_only_the_job_that_crashes_its_process_becomes_a_dead_letter(tmp_path):
    print(run_poison(tmp_path, jobs=200))


def test_hostile_handlers_leave_nothing_behind(tmp_path):
    print(run_hostile_handlers(tmp_path, rounds=24))


def test_a_rolling_restart_refunds_the_attempts_that_it_interrupts(tmp_path):
    print(run_rolling_restarts(tmp_path, count=6))


def test_domains_stay_in_order_when_workers_are_killed_and_stopped(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    print(run_ordered(tmp_path, url, domains=6, offsets=10, workers=2, seconds=3, idle_leases=10))
