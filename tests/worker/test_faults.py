"""Workers as processes that are killed and restarted: the scenarios of ``run soak``, with small numbers."""

from tests.soak.kill import kill
from tests.soak.poison import poison
from tests.soak.restarts import restarts
from tests.soak.zoo import zoo


def test_workers_that_are_killed_and_stopped_lose_and_repeat_nothing(tmp_path):
    print(kill(tmp_path, workers=4, jobs=300, seconds=3))


def test_only_the_job_that_crashes_its_process_becomes_a_dead_letter(tmp_path):
    print(poison(tmp_path, jobs=200))


def test_stubborn_handlers_leave_nothing_behind(tmp_path):
    print(zoo(tmp_path, rounds=24))


def test_a_rolling_restart_refunds_the_attempts_that_it_interrupts(tmp_path):
    print(restarts(tmp_path, count=6))
