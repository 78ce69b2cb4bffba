"""examples/service end to end: the shop as its users run it."""

from __future__ import annotations

from tests.soak.service_restarts import run_service_restarts


def test_a_rolling_restart_under_load_loses_nothing(tmp_path, postgres_database):
    run_service_restarts(tmp_path, postgres_database(), orders=200, restarts=1)
