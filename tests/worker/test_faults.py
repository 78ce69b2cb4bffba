"""Workers as processes, and what happens to them: the same as in ``run soak``, in small numbers."""

from tests.soak.kill import kill
from tests.soak.poison import poison
from tests.soak.restarts import restarts
from tests.soak.zoo import zoo


def test_workers_that_are_killed_and_stopped_lose_and_repeat_nothing(tmp_path):
    print(kill(tmp_path, workers=4, jobs=300, seconds=3))


def test_a_job_that_takes_its_process_down_ends_alone_in_the_dead_letters(tmp_path):
    print(poison(tmp_path, jobs=200))


def test_stubborn_handlers_leave_nothing_behind(tmp_path):
    print(zoo(tmp_path, rounds=24))


def test_a_rolling_restart_refunds_what_it_interrupts(tmp_path):
    print(restarts(tmp_path, count=6))
