"""Payloads of a megabyte: what a worker holds is bounded in bytes, not only in jobs."""

import pytest

from tests.soak.large_payloads import run_large_payloads

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_memory_of_a_worker_is_bounded(tmp_path, request, store):
    url = f"sqlite:///{tmp_path}/jobs.db" if store == "sqlite" else request.getfixturevalue("postgres_database")()
    print(run_large_payloads(tmp_path, url, jobs=150, most_bytes=600 * MEBIBYTE))
