"""Schedulers in processes of their own, killed with SIGKILL."""

from tests.cron.scheduler_processes import run_killed_schedulers


def test_every_second_has_one_job_while_schedulers_are_killed(postgres_database, tmp_path):
    fires = run_killed_schedulers(tmp_path, postgres_database(), schedulers=2, kills=1, seed=1)
    assert fires >= 4
