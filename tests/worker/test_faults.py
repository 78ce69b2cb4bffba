"""Workers as processes, and what happens to them: the same as in ``run soak``, in small numbers."""

from tests.soak.hostile_handlers import run_hostile_handlers
from tests.soak.poison import run_poison
from tests.soak.random_kills import run_random_kills
from tests.soak.rolling_restarts import run_rolling_restarts


def test_workers_that_are_killed_and_stopped_lose_and_repeat_nothing(tmp_path):
    print(run_random_kills(tmp_path, workers=4, jobs=300, seconds=3))


def test_a_job_that_takes_its_process_down_ends_alone_in_the_dead_letters(tmp_path):
    print(run_poison(tmp_path, jobs=200))


def test_stubborn_handlers_leave_nothing_behind(tmp_path):
    print(run_hostile_handlers(tmp_path, rounds=24))


def test_a_rolling_restart_refunds_what_it_interrupts(tmp_path):
    print(run_rolling_restarts(tmp_path, count=6))
