"""Quotas of artifacts, uploads at the same time, slow ones, and their removal together with their task."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import threading

import msgspec
import pytest

from holdfast.artifacts import collector as collector_module
from holdfast.artifacts.blobs import part_folder
from holdfast.artifacts.collector import YOUNG, ArtifactCollector
from holdfast.artifacts.folder import BlobFolder
from holdfast.artifacts.manifest import MANIFEST_KIND
from holdfast.artifacts.uploads import UPLOAD_KIND, begin_upload, read_upload
from holdfast.artifacts.usage import Usage, change_usage, read_usage
from holdfast.clock import HOUR, SECOND, ManualClock, SystemClock
from holdfast.drivers.requests import Purge, Scan, Write
from holdfast.model.job import JobRecord
from holdfast.model.registry import Change
from holdfast.service import artifact_transfers, limits
from holdfast.service.routes.artifacts import MAX_SPACE_ARTIFACTS, MAX_TASK_ARTIFACTS
from holdfast.service.timing import ServiceTiming
from holdfast.settings import Settings
from holdfast.settings.serve import AuthMode
from holdfast.worker.timing import MaintenanceTiming
from tests.service.artifact_calls import claim, download, files_of, names_of, upload
from tests.service.http_service import in_thread, running_service, sqlite_url
from tests.waiting import wait_until

QUOTAS = {
    "artifact_max_bytes": 100,
    "artifact_space_bytes": 550,
}


@pytest.fixture
def small(tmp_path):
    """A service with small quotas."""
    with running_service(sqlite_url(tmp_path), Settings(artifacts=str(tmp_path / "artifacts")), **QUOTAS) as running:
        yield running


@pytest.fixture
def large(tmp_path, timing):
    """A service with the usual quotas."""
    settings = Settings(artifacts=str(tmp_path / "artifacts"))
    with running_service(sqlite_url(tmp_path), settings, timing=timing) as running:
        yield running


def code_of(answer):
    return (answer.status_code, answer.json()["code"])


def collector_of(running, *, later: int = 0) -> ArtifactCollector:
    clock = ManualClock(SystemClock().now() + later)
    return ArtifactCollector(running.store, running.service.artifacts.blobs, space="main", clock=clock)


def test_an_artifact_a_task_and_a_space_have_quotas(small, command):
    first, second = claim(small, command), claim(small, command)
    assert code_of(upload(small, first, "a", b"x" * 101)) == (413, "body_too_large")
    assert code_of(upload(small, first, "a", iter([b"x" * 60, b"y" * 60]))) == (413, "body_too_large")
    for name in "abcd":
        assert upload(small, first, name, name.encode() * 100).status_code == 201
    assert code_of(upload(small, first, "e", b"5")) == (413, "quota_exceeded")  # four times the largest artifact
    for number in range(4, MAX_TASK_ARTIFACTS):
        assert upload(small, first, f"empty-{number}", b"").status_code == 201
    assert code_of(upload(small, first, "one-more", b"")) == (413, "quota_exceeded")
    assert upload(small, first, "a", b"a" * 100).status_code == 200  # it is there, and costs nothing
    assert upload(small, second, "a", b"6" * 100).status_code == 201
    assert code_of(upload(small, second, "b", b"7" * 51)) == (413, "quota_exceeded")  # of the space
    assert upload(small, second, "b", b"7" * 50).status_code == 201
    assert read_usage(small.store)[0] == Usage(count=34, total_bytes=550)
    assert len(files_of(small)) == 34
    change_usage(small.store, count=MAX_SPACE_ARTIFACTS - 34, size=0)
    assert code_of(upload(small, second, "c", b"")) == (413, "quota_exceeded")


def test_of_uploads_at_the_same_time_as_many_are_stored_as_the_quota_allows(small, command):
    claimed = claim(small, command)
    before = [f"before-{number}" for number in range(MAX_TASK_ARTIFACTS - 3)]
    for name in before:
        assert upload(small, claimed, name, b"").status_code == 201
    together = threading.Barrier(6)

    def send(number):
        together.wait(30)
        return upload(small, claimed, f"a{number}", f"{number}".encode())

    answers = [call() for call in [in_thread(lambda number=number: send(number)) for number in range(6)]]
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [413] * 3
    stored = [*before, *(answer.json()["name"] for answer in answers if answer.status_code == 201)]
    assert small.settle("result", claimed, status="COMPLETED", artifacts=stored).status_code == 200
    assert sorted(names_of(small, claimed)) == sorted(stored)
    assert read_usage(small.store)[0] == Usage(count=MAX_TASK_ARTIFACTS, total_bytes=3)


class SlowFolder(BlobFolder):
    """Ends no upload before a number of them can end together."""

    def __init__(self, root, uploads):
        super().__init__(root)
        self.together = threading.Barrier(uploads)

    def create(self, folder):
        writer = super().create(folder)
        commit = writer.commit

        def commit_together():
            self.together.wait(60)
            return commit()

        writer.commit = commit_together
        return writer


@pytest.mark.parametrize(("quota", "fit"), [("artifact_max_bytes", 4), ("artifact_space_bytes", 1)])
def test_uploads_that_end_together_leave_no_bytes_over_the_quota(tmp_path, command, quota, fit):
    folder, uploads = tmp_path / "artifacts", 6
    with running_service(sqlite_url(tmp_path), Settings(artifacts=str(folder)), **{quota: 100}) as running:
        running.service.artifacts.blobs = SlowFolder(folder, uploads)
        claimed = claim(running, command)
        calls = [
            in_thread(lambda content=content: upload(running, claimed, content, content.encode() * 90))
            for content in "abcdef"
        ]
        answers = [call() for call in calls]
        assert sorted(answer.status_code for answer in answers) == [201] * fit + [413] * (6 - fit)
        assert [file.stat().st_size for file in files_of(running)] == [90] * fit
        assert read_usage(running.store)[0] == Usage(count=fit, total_bytes=90 * fit)
        assert running.store.do(Scan(kind=UPLOAD_KIND)) == []
        stored = [answer.json()["name"] for answer in answers if answer.status_code == 201]
        assert running.settle("result", claimed, status="COMPLETED", artifacts=stored).status_code == 200
        assert [download(running, claimed, name).content for name in stored] == [name.encode() * 90 for name in stored]


def test_the_same_upload_twice_at_the_same_time_is_stored_once(tmp_path, command):
    folder = tmp_path / "artifacts"
    with running_service(sqlite_url(tmp_path), Settings(artifacts=str(folder))) as running:
        running.service.artifacts.blobs = SlowFolder(folder, 2)
        claimed = claim(running, command)
        answers = [call() for call in [in_thread(lambda: upload(running, claimed, "a")) for _ in range(2)]]
        assert sorted(answer.status_code for answer in answers) == [200, 201]
        assert len(files_of(running)) == 1
        running.settle("result", claimed, status="COMPLETED", artifacts=["a"])
        assert download(running, claimed, "a").status_code == 200


class FullFolder(BlobFolder):
    """Has no space left at one step of an upload."""

    step = "write"

    def create(self, folder):
        writer = super().create(folder)

        def fail(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        if self.step == "create":
            writer.abort()
            fail()
        setattr(writer, self.step, fail)
        return writer


@pytest.mark.parametrize("step", ["create", "write", "commit"])
def test_a_full_disk_is_507_and_leaves_nothing(large, command, step, caplog):
    blobs = large.service.artifacts.blobs
    large.service.artifacts.blobs = FullFolder(large.service.settings.artifacts)
    large.service.artifacts.blobs.step = step
    claimed = claim(large, command)
    answer = upload(large, claimed, "a")
    assert (*code_of(answer), answer.headers["retry-after"]) == (507, "artifacts_full", "5")
    assert (files_of(large), large.store.do(Scan(kind=UPLOAD_KIND))) == ([], [])
    assert "No space left" in caplog.text
    large.service.artifacts.blobs = blobs
    assert upload(large, claimed, "a").status_code == 201


def test_a_space_that_uploads_slowly_leaves_transfers_to_others(tmp_path, command, monkeypatch):
    monkeypatch.setattr(artifact_transfers, "MAX_TRANSFERS", 4)
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        "".join(
            f'[[tokens]]\ntoken = "{space}-token-for-tests"\nsubject = "{space}"\nspace = "{space}"\n'
            'scopes = ["enqueue", "claim", "result"]\n'
            for space in ("first", "second")
        )
    )
    settings = Settings(artifacts=str(tmp_path / "artifacts"))
    with running_service(sqlite_url(tmp_path), settings, auth=(AuthMode.STATIC,), tokens_file=str(tokens)) as running:
        ends = threading.Event()

        def slow():
            yield b"x" * (1 << 20)
            ends.wait(60)

        def send(space, content):
            bearer = {"authorization": f"Bearer {space}-token-for-tests"}
            running.client.post("/v1/tasks", json={"command": command}, headers=bearer)
            claimed = running.client.post("/v1/tasks/claim", json={"commands": [command]}, headers=bearer).json()
            return upload(running, claimed, "a", content, **bearer)

        slow_ones = [in_thread(lambda: send("first", slow())) for _ in range(2)]
        try:
            wait_until(lambda: len(files_of(running)) == 2)
            assert code_of(send("first", b"x")) == (503, "overloaded")
            assert len(running.store.space("first").do(Scan(kind=UPLOAD_KIND))) == 2
            assert send("second", b"x").status_code == 201
        finally:
            ends.set()
        assert [call().status_code for call in slow_ones] == [201, 201]


def test_of_two_uploads_with_one_name_one_is_stored(large, command):
    claimed = claim(large, command)
    together = threading.Barrier(2)

    def send(content):
        together.wait(30)
        return upload(large, claimed, "a", content * 100_000)

    answers = [call() for call in [in_thread(lambda content=content: send(content)) for content in (b"1", b"2")]]
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    [won] = [answer.json()["sha256"] for answer in answers if answer.status_code == 201]
    large.settle("result", claimed, status="COMPLETED", artifacts=["a"])
    assert hashlib.sha256(download(large, claimed, "a").content).hexdigest() == won


def test_a_large_artifact_is_streamed(large, command):
    claimed = claim(large, command)
    content = b"0123456789abcdef" * (5 << 16)  # 5 MiB: several pieces
    assert upload(large, claimed, "a", content).status_code == 201
    large.settle("result", claimed, status="COMPLETED", artifacts=["a"])
    assert download(large, claimed, "a").content == content


@pytest.mark.parametrize("timing", [ServiceTiming(body_seconds=0.2)], ids=["impatient"])
def test_a_slow_upload_is_refused(large, command):
    claimed = claim(large, command)
    head = (
        f"PUT /v1/tasks/{claimed['task']['id']}/artifacts/a HTTP/1.1\r\nHost: localhost\r\n"
        f"Lease-Token: {claimed['leaseToken']}\r\nContent-Length: 100\r\n\r\n"
    )
    host, port = large.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode() + b"begin")
        answer = b""
        while part := connection.recv(65536):  # until the service closes the connection
            answer += part
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"timeout"' in answer
    wait_until(lambda: files_of(large) == [])


@pytest.mark.parametrize("timing", [ServiceTiming(upload_grace_seconds=0.0)], ids=["impatient"])
def test_an_upload_that_trickles_is_refused(large, command, monkeypatch):
    monkeypatch.setattr(limits, "MIN_BYTES_PER_SECOND", 1 << 40)
    assert code_of(upload(large, claim(large, command), "a")) == (408, "timeout")
    wait_until(lambda: files_of(large) == [])


# Removal ----------------------------------------------------------------------------------------------------------


def test_artifacts_are_removed_with_their_task_and_not_before(large, command):
    kept, gone, running = (claim(large, command) for _ in range(3))
    for one in (kept, gone, running):
        upload(large, one, "a", one["task"]["id"].encode())
    for one in (kept, gone):
        large.settle("result", one, status="COMPLETED", artifacts=["a"])
    large.store.do(Purge(job_ids=[gone["task"]["id"]]))
    assert download(large, gone, "a").status_code == 404  # at once
    assert collector_of(large).step() == 1
    assert len(files_of(large)) == 2
    assert download(large, kept, "a").status_code == 200
    assert [entry.key for entry in large.store.do(Scan(kind=MANIFEST_KIND))] == sorted(
        one["task"]["id"] for one in (kept, running)
    )
    assert read_usage(large.store)[0].count == 2
    assert large.settle("result", running, status="COMPLETED", artifacts=["a"]).status_code == 200


def test_the_service_collects_by_itself(tmp_path, command):
    settings = Settings(artifacts=str(tmp_path / "artifacts"))
    timing = MaintenanceTiming(trim_seconds=0.0)
    with running_service(sqlite_url(tmp_path), settings, timing=ServiceTiming(maintenance=timing)) as running:
        claimed = claim(running, command)
        upload(running, claimed, "a")
        running.settle("result", claimed, status="COMPLETED", artifacts=["a"])
        running.store.do(Purge(job_ids=[claimed["task"]["id"]]))
        wait_until(lambda: files_of(running) == [])


def test_a_payload_that_an_older_version_kept_apart_is_a_dead_letter_and_goes_with_its_task(large, command):
    """The job has a reference, the manifest has a payload, and the bytes are in the folder of the task."""
    store, digest = large.store, hashlib.sha256(b"[1]").hexdigest()
    payload = json.dumps({"sha256": digest, "size": 3}).encode()
    meta = {"holdfast.payload_ref": True}
    job = JobRecord(id=f"older-{command}", type=command, queue="default", payload=payload, meta=meta, created_at=1)
    manifest = msgspec.msgpack.encode({"created_at": 1, "payload": {"digest": digest, "size": 3}})
    writer = large.service.artifacts.blobs.create(part_folder("main", job.id, "payload"))
    writer.write(b"[1]")
    writer.commit()
    store.do(Write(changes=[Change(kind=MANIFEST_KIND, key=job.id, value=manifest)]))
    store.enqueue([job])
    other = claim(large, command)  # reserves the older task, too
    task = large.get(f"/v1/tasks/{job.id}").json()
    assert (task["status"], task["reason"]) == ("FAILED", "bad payload")
    assert task["error"] == "the payload is a reference of an older version"
    assert upload(large, other, "a").status_code == 201
    assert collector_of(large).step() == 0
    store.do(Purge(job_ids=[job.id]))
    assert collector_of(large).step() == 1
    assert len(files_of(large)) == 1


def test_uploads_of_earlier_attempts_are_removed(large, command):
    claimed = claim(large, command)
    upload(large, claimed, "a", b"first")
    large.settle("abandon", claimed)
    again = large.claim(command)
    upload(large, again, "a", b"second")
    assert [file.read_bytes() for file in files_of(large)] == [b"second"]
    assert read_usage(large.store)[0] == Usage(count=1, total_bytes=6)


def test_what_a_killed_upload_has_left_is_removed_within_an_hour(large, command):
    claimed = claim(large, command)
    upload(large, claimed, "a")
    [kept] = files_of(large)
    store, blobs = large.store, large.service.artifacts.blobs
    now = SystemClock().now()
    for job_id in (claimed["task"]["id"], "a-task-that-was-not-enqueued"):
        for commits in (False, True):
            key = begin_upload(store, job_id, now=now)
            writer = blobs.create(part_folder("main", job_id, key))
            writer.write(b"left")
            writer.commit() if commits else writer._close()
    collector_of(large).step()
    assert len(files_of(large)) == 5  # the uploads may go on
    slow = next(file for file in kept.parent.parent.rglob(".upload-*"))
    later = now + HOUR
    os.utime(slow, (later / SECOND, later / SECOND))  # this one goes on
    collector_of(large, later=HOUR).step()
    assert sorted(files_of(large)) == sorted([kept, slow])
    assert {read_upload(entry).job_id for entry in store.do(Scan(kind=UPLOAD_KIND))} == {claimed["task"]["id"]}
    collector_of(large, later=HOUR + 2 * YOUNG).step()
    assert files_of(large) == [kept]
    assert store.do(Scan(kind=UPLOAD_KIND)) == []
    large.settle("result", claimed, status="COMPLETED", artifacts=["a"])
    assert download(large, claimed, "a").status_code == 200


def test_an_artifact_whose_bytes_are_lost_is_404(large, command):
    claimed = claim(large, command)
    upload(large, claimed, "a")
    large.settle("result", claimed, status="COMPLETED", artifacts=["a"])
    path = f"/v1/tasks/{claimed['task']['id']}/artifacts/a"
    assert large.client.head(path).status_code == 200
    [file] = files_of(large)
    file.unlink()
    assert [large.client.request(method, path).status_code for method in ("GET", "HEAD")] == [404, 404]


def test_a_usage_that_a_crash_has_left_too_large_is_counted_again(large, command, monkeypatch):
    monkeypatch.setattr(collector_module, "STEP_ROWS", 2)
    for _ in range(3):
        upload(large, claim(large, command), "a", b"12345")
    change_usage(large.store, count=5, size=100)  # of uploads whose service died before it wrote their rows
    collector = collector_of(large)
    assert [collector.step(), collector.step()] == [0, 0]
    assert read_usage(large.store)[0] == Usage(count=3, total_bytes=15)
    collector.step()
    change_usage(large.store, count=1, size=1)  # an upload in the middle of a round: the next round counts
    collector.step()
    assert read_usage(large.store)[0] == Usage(count=4, total_bytes=16)
