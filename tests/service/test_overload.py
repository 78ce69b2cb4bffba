"""A service with more requests than it answers at a time; ``run soak http-overload`` has larger numbers."""

from __future__ import annotations

from tests.soak.http_overload import run_http_overload


def test_an_overloaded_service_refuses_new_work_and_settles(tmp_path):
    run_http_overload(tmp_path, capacity=20, refusals=100, settles=20)
