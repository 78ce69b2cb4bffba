"""A store that does not answer: every call ends with 503, and the service ends when it is told to."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from holdfast.cli.commands.serve import with_lock_wait
from holdfast.service.timing import ServiceTiming
from tests.postgres.proxy import LosingProxy
from tests.service.http_service import in_thread, running_service
from tests.service.test_processes import serve_processes
from tests.waiting import TIMEOUT_SECONDS, wait_until

IMPATIENT = ServiceTiming(store_seconds=0.5, batch_queue_seconds=0.2, probe_seconds=0.5)


@pytest.fixture
def proxy(postgres_database) -> Iterator[LosingProxy]:
    opened = LosingProxy(postgres_database())
    yield opened
    opened.close()


def test_every_call_ends_while_the_store_does_not_answer(proxy):
    with running_service(proxy.url, timing=IMPATIENT, threads=2) as running:
        running.enqueue("held")
        claim = running.claim("held", leaseSeconds=600)
        task = f"/v1/tasks/{claim['task']['id']}"
        token = {"leaseToken": claim["leaseToken"]}
        late = running.enqueue("late")
        with proxy.held():
            calls = [
                lambda: running.post("/v1/tasks/claim", {"commands": ["late"], "leaseSeconds": 600}),
                *[lambda: running.post("/v1/tasks", {"command": "a"})] * 6,
                lambda: running.post("/v1/tasks/batch", {"tasks": [{"command": "a"}]}),
                lambda: running.get(task),
                lambda: running.get(f"{task}/result"),
                lambda: running.get(f"{task}/result", wait=50),
                lambda: running.post(f"{task}/heartbeat", token),
                lambda: running.post(f"{task}/result", token | {"status": "COMPLETED"}),
                lambda: running.post(f"{task}/nack", token),
                lambda: running.client.post(f"{task}/cancel"),
                *[lambda: running.get("/v1/queues")] * 3,
                lambda: running.get("/v1/tasks"),
                lambda: running.get("/v1/events"),
                lambda: running.get("/readyz"),
            ]
            answers = [in_thread(call) for call in calls]
            statuses = [answer().status_code for answer in answers]
            assert set(statuses) == {503}
            assert {answer().headers.get("retry-after") for answer in answers[:-1]} <= {"1", "5"}
            assert {answer().json()["code"] for answer in answers[:-1]} <= {"store_unavailable", "store_busy"}
            assert running.get("/healthz").status_code == 200
        wait_until(lambda: running.get("/readyz").status_code == 200)
        assert running.post("/v1/tasks", {"command": "a"}).status_code == 202
        # The claim whose answer came too late holds no task.
        again = wait_until(lambda: running.post("/v1/tasks/claim", {"commands": ["late"]}).content)
        assert late.encode() in again


def test_a_signal_ends_a_service_whose_store_does_not_answer(proxy):
    with serve_processes(proxy.url, 1) as [service]:
        for answer in [in_thread(lambda: service.client.get("/v1/tasks/x")) for _ in range(10)]:
            assert answer().status_code == 404  # so that there are connections to the database on which calls can hang
        with proxy.held():
            wait_until(lambda: service.client.get("/readyz").status_code == 503)
            service.process.send_signal(signal.SIGTERM)
            assert service.process.wait(TIMEOUT_SECONDS) == 0


@pytest.mark.parametrize(
    ("url", "opened"),
    [
        ("sqlite:///jobs.db", "sqlite:///jobs.db?busy_for=8"),
        ("sqlite:///jobs.db?synchronous=NORMAL", "sqlite:///jobs.db?synchronous=NORMAL&busy_for=8"),
        ("sqlite:///jobs.db?busy_for=60", "sqlite:///jobs.db?busy_for=60"),
        ("postgresql://a/b", "postgresql://a/b"),
        ("memory://", "memory://"),
    ],
)
def test_a_service_waits_less_long_than_others_for_a_lock_of_sqlite(url, opened):
    assert with_lock_wait(url) == opened
