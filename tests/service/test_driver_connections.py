"""The service as a driver: lost answers, a service that dies, TLS, and what is not a service."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest

from holdfast import connect
from holdfast.app import Holdfast
from holdfast.drivers.http.protocol import PROTOCOL_VERSION
from holdfast.drivers.requests import Inspect, Read, ReadTuples, Reserve, Wait, Write
from holdfast.errors import ConnectError, InvalidInput, StoreBusy, StoreClosed, StoreUnavailable
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.settings import Settings
from holdfast.worker.options import WorkerOptions
from tests.net.loopback import answer, serving
from tests.private_authority import make_authority
from tests.service.http_proxy import proxy_to
from tests.service.http_service import TIMEOUT_SECONDS, in_thread, running_service, sqlite_url
from tests.service.test_processes import serve_processes

LEASE = 60_000_000
THREADS = 8


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    with running_service(sqlite_url(folder), Settings(artifacts=str(folder / "artifacts"))) as running:
        yield running


def job(job_id: str, **fields) -> JobRecord:
    return JobRecord(**{"id": job_id, "type": "t", "queue": job_id, "payload": b"1", "created_at": 1, **fields})


def test_a_call_whose_answer_was_lost_is_answered_as_the_first_time(service):
    with proxy_to(service.url) as proxy, connect(f"http://127.0.0.1:{proxy.port}") as store:
        proxy.lose_next()
        assert [one.id for one in store.enqueue([job("lost", max_attempts=1)])] == ["lost"]
        proxy.lose_next()
        [reservation] = store.reserve(["lost"], limit=1, lease_for=LEASE)
        assert (reservation.job.attempts, service.store.do(Inspect(job_ids=["lost"]))["lost"].fence) == (
            1,
            reservation.lease.fence,
        )
        proxy.lose_next()
        assert store.settle([Ack(reservation.lease, result=b"2")]) == [None]
        assert proxy.lost == 3
        assert [row.ending for row in service.store.ledger().items if row.job_id == "lost"] == ["acked"]
        proxy.lose_next()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):  # nobody knows whether it was carried out
            store.do(Write(changes=[Change(kind="kind", key="lost", value=b"1", version=0)]))
        assert store.do(Read(kind="kind", keys=["lost"]))[0].value == b"1"


def test_a_reserve_whose_answer_is_cut_in_its_head_is_asked_for_again(service):
    """Of a job with one attempt a lost lease is a dead letter. In threads: each cut waits before it repeats."""

    def reserve_after_cuts(first: int) -> int:
        with proxy_to(service.url) as proxy, connect(f"http://127.0.0.1:{proxy.port}") as store:
            queues = [f"cut-{first}-{number}" for number in range(100)]
            store.enqueue([job(name, max_attempts=1) for name in queues])
            store.reserve([queues.pop()], limit=1, lease_for=LEASE)
            for kept in range(first, len(proxy.last_head) + 1, THREADS):
                name = queues.pop()
                proxy.lose_next(kept=kept)
                [reservation] = store.reserve([name], limit=1, lease_for=LEASE)
                assert service.store.do(Inspect(job_ids=[name]))[name].fence == reservation.lease.fence
            return proxy.lost

    with ThreadPoolExecutor(THREADS) as pool:
        lost = list(pool.map(reserve_after_cuts, range(THREADS)))
    assert sum(lost) > len("HTTP/1.1 200 OK\r\ncontent-type: \r\ncontent-length: \r\n\r\n")


def test_a_connection_is_used_again_and_a_closed_one_is_not(service):
    with proxy_to(service.url) as proxy, connect(f"http://127.0.0.1:{proxy.port}") as store:
        for _ in range(3):
            store.get("unknown")
        assert proxy.connections == 1
        [idle] = store.engine._service.connections._idle
        idle.sock.close()
        assert store.do(Write(changes=[Change(kind="kind", key="idle", value=b"1")]))[0].version > 0
        assert proxy.connections == 2


def test_a_wait_ends_when_the_store_is_closed(service):
    store = connect(service.url)
    assert store.reserve(["idle"], limit=1, lease_for=LEASE) == []

    def wait() -> str:
        try:
            store.wait(["idle"], timeout=TIMEOUT_SECONDS)
        except StoreClosed:
            return "closed"
        return "ended"

    waiting = in_thread(wait)
    while not store.engine._service.connections._in_use:
        time.sleep(0.01)
    store.close()
    assert waiting() == "closed"


def test_a_forked_process_opens_its_own_connections(service):
    with connect(service.url) as store:
        store.get("unknown")
        [idle] = store.engine._service.connections._idle
        child = os.fork()
        if child == 0:
            is_new = store.get("unknown") is None and idle not in store.engine._service.connections._idle
            os._exit(0 if is_new else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert store.get("unknown") is None
        assert store.engine._service.connections._idle == [idle]


def test_certificates_are_checked(service, tmp_path):
    authority = make_authority(tmp_path / "ours", "127.0.0.1")
    with proxy_to(service.url, tls=authority.context) as proxy:
        url = f"https://127.0.0.1:{proxy.port}"
        with connect(f"{url}?ca={authority.ca_file}") as store:
            assert [store.get("unknown") for _ in range(3)] == [None] * 3
            assert proxy.connections == 1
        with pytest.raises(StoreUnavailable, match="wanted a valid certificate, unable to get local issuer"):
            connect(url)
    other = make_authority(tmp_path / "other", "127.0.0.2")
    with (
        proxy_to(service.url, tls=other.context) as proxy,
        pytest.raises(StoreUnavailable, match="wanted a valid certificate, IP address mismatch"),
    ):
        connect(f"https://127.0.0.1:{proxy.port}?ca={other.ca_file}")


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        ("200 OK", "Content-Type: text/html\r\n", "wanted a Holdfast service"),
        ("302 Found", "Location: http://127.0.0.1:1/\r\n", "got the status 302"),
        ("200 OK", "Content-Type: application/json\r\n", "wanted a Holdfast service"),
    ],
)
def test_something_else_than_a_service_is_refused(status, headers, reason):
    with (
        serving(answer(b"hello", status=status, headers=headers), host="127.0.0.1") as other,
        pytest.raises(ConnectError, match=reason),
    ):
        connect(f"http://127.0.0.1:{other.port}")


def test_a_service_of_another_version_is_refused(service):
    description = service.get("/v1/driver").json()
    assert (description["protocol"], description["space"], description["allSpaces"]) == (PROTOCOL_VERSION, "main", True)
    body = json.dumps({**description, "protocol": PROTOCOL_VERSION + 1}).encode()
    with (
        serving(answer(body, headers="Content-Type: application/json\r\n"), host="127.0.0.1") as other,
        pytest.raises(
            ConnectError, match=f"wanted version {PROTOCOL_VERSION} of the protocol, got {PROTOCOL_VERSION + 1}"
        ),
    ):
        connect(f"http://127.0.0.1:{other.port}")


def test_a_service_that_is_not_there_is_reported_after_the_patience():
    with serving(answer()) as gone:
        pass
    with pytest.raises(StoreUnavailable, match=r"http://127\.0\.0\.2:\d+ cannot be reached"):
        connect(f"http://127.0.0.2:{gone.port}?patience=0.1")


def test_a_busy_service_is_asked_again_and_a_store_that_fails_is_reported():
    with running_service("memory://", rate=2.0) as running, connect(running.url) as patient:
        assert [patient.get("unknown") for _ in range(3)] == [None] * 3  # waits as Retry-After says
        with pytest.raises(StoreBusy):
            connect(f"{running.url}?patience=0.1")
    with running_service("memory://") as running, connect(f"{running.url}?patience=0.1") as store:
        running.store.close()
        with pytest.raises(StoreUnavailable, match="the store of the service cannot be used now"):
            store.get("unknown")


def test_a_job_that_the_caller_cannot_reserve_does_not_keep_its_waits_busy(service):
    with connect(service.url) as store:
        store.enqueue([job("strange")])
        began = time.monotonic()
        for _ in range(6):
            found = store.do(Reserve(queues=["strange"], limit=1, lease_for=LEASE, types=["known"]))
            assert found.reservations == []
            store.do(Wait(queues=["strange"], timeout=0.2, since=found.mark))
        assert time.monotonic() - began > 1.0


def test_the_ledger_is_read_as_tuples(service):
    with connect(service.url) as store:
        store.enqueue([job("tuples")])
        [reservation] = store.reserve(["tuples"], limit=1, lease_for=LEASE)
        store.settle([Ack(reservation.lease)])
        wanted = service.store.do(ReadTuples())
        rows, cursor = store.do(ReadTuples())
        assert ([tuple(row) for row in rows], cursor) == ([tuple(row) for row in wanted[0]], wanted[1])


def test_a_page_of_large_jobs_is_cut(service, monkeypatch):
    with connect(service.url) as store:
        store.enqueue([job(f"page-{number:02}", queue="page", payload=b"x" * 200) for number in range(25)])
        where, pages, cursor = JobFilter(queue="page"), [], None
        jobs = store.find(where, limit=10_000).items
        assert len(jobs) == 25
        assert len(store.find(where, limit=17)) == 17
        monkeypatch.setattr("holdfast.drivers.packing.FIND_BYTES", 2000)
        while not pages or cursor is not None:
            pages.append(store.find(where, limit=10_000, after=cursor))
            cursor = pages[-1].cursor
        assert [len(page) for page in pages] == [10, 10, 5]
        assert [one for page in pages for one in page] == jobs


def test_jobs_that_are_too_large_together_are_not_all_read(service, monkeypatch):
    monkeypatch.setattr("holdfast.service.driver.calls.MAX_ANSWER_BYTES", 1 << 20)
    kind, read = type(service.store.engine), []
    inspect = kind.inspect

    def spy(engine, request):
        read.append(len(request.job_ids))
        return inspect(engine, request)

    monkeypatch.setattr(kind, "inspect", spy)
    jobs = [job(f"many-{number:03}", queue="many", payload=b"x" * 20_000) for number in range(250)]
    ids = [one.id for one in jobs]
    with connect(service.url) as store:
        store.enqueue(jobs)
        with pytest.raises(InvalidInput, match="at most 1048576 bytes"):
            store.do(Inspect(job_ids=ids))
        assert read == [100]
        assert {one.job.payload for one in store.do(Inspect(job_ids=ids[:20])).values()} == {jobs[0].payload}
        assert list(store.do(Inspect(job_ids=ids, payloads=False))) == ids
        assert read == [100, 20, 250]


def test_a_worker_goes_on_when_its_service_was_killed(tmp_path):
    """The worker drains while its service dies and comes back: every job is done, and has one ack."""
    url, count = f"sqlite:///{tmp_path}/jobs.db", 40
    with serve_processes(url, 1) as [first]:
        address = str(first.client.base_url)
        with closing(Holdfast(address)) as app, connect(url) as store:
            slow = app.handler("slow")(lambda _: time.sleep(0.02))
            slow.enqueue_many(range(count))
            options = WorkerOptions(processes=1, lease=timedelta(seconds=2), until_drained=True)
            run = threading.Thread(target=app.worker(options).run)
            run.start()
            while not any(row.done for row in store.counts()):
                time.sleep(0.01)
            first.process.send_signal(signal.SIGKILL)
            first.process.wait(TIMEOUT_SECONDS)
            with serve_processes(url, 1, bind=address.removeprefix("http://").rstrip("/")):
                run.join(TIMEOUT_SECONDS)
                assert not run.is_alive()
                [counts] = store.counts()
                assert (counts.done, counts.dead) == (count, 0)
                acked = [row.job_id for row in store.ledger() if row.ending == "acked"]
                assert len(acked) == len(set(acked)) == count
                assert {one.state for one in store.find(limit=1000)} == {State.DONE}
