"""Artifacts over HTTP: uploaded under a lease, named by the completion, read by producers."""

from __future__ import annotations

import httpx
import pytest

from holdfast.settings import Settings
from tests.service.artifact_calls import (
    CONTENT,
    claim,
    content_digest,
    download,
    files_of,
    names_of,
    upload,
)
from tests.service.http_service import running_service, sqlite_url
from tests.waiting import wait_until


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def service(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    url = sqlite_url(folder) if request.param == "sqlite" else request.getfixturevalue("postgres_database")()
    with running_service(url, Settings(artifacts=str(folder / "artifacts"))) as running:
        yield running


# The way of an artifact -------------------------------------------------------------------------------------------


def test_a_download_is_saved_and_never_shown(service, command):
    claimed = claim(service, command)
    upload(service, claimed, "Über sicht.html", **{"content-type": "text/html"})
    service.settle("result", claimed, status="COMPLETED", artifacts=["Über sicht.html"])
    answer = download(service, claimed, "Über sicht.html")
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"_ber sicht.html\"; filename*=UTF-8''%C3%9Cber%20sicht.html"
    )
    assert answer.headers["repr-digest"] == content_digest(CONTENT)
    assert "sandbox" in answer.headers["content-security-policy"]
    head = service.client.head(answer.request.url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(CONTENT))


@pytest.mark.parametrize(
    ("value", "status", "content"),
    [
        ("bytes=0-3", 206, CONTENT[:4]),
        ("bytes=10-", 206, CONTENT[10:]),
        ("bytes=-5", 206, CONTENT[-5:]),
        ("bytes=30-999", 206, CONTENT[30:]),
        ("bytes=5-4", 200, CONTENT),
        ("bytes=0-1,4-5", 200, CONTENT),
        ("lines=1-2", 200, CONTENT),
        ("bytes=99-", 416, None),
        ("bytes=-0", 416, None),
    ],
)
def test_a_range_of_an_artifact(service, command, value, status, content):
    claimed = claim(service, command)
    upload(service, claimed, "page")
    service.settle("result", claimed, status="COMPLETED", artifacts=["page"])
    answer = download(service, claimed, "page", range=value)
    assert answer.status_code == status
    if content is not None:
        assert answer.content == content
    if status == 206:
        start = CONTENT.rindex(content)
        assert answer.headers["content-range"] == f"bytes {start}-{start + len(content) - 1}/{len(CONTENT)}"
    stale = download(service, claimed, "page", range=value, **{"if-range": '"another"'})
    assert (stale.status_code, stale.content) == (200, CONTENT)


def test_a_failed_task_may_have_artifacts(service, command):
    claimed = claim(service, command)
    upload(service, claimed, "log")
    assert service.settle("result", claimed, status="FAILED", error="x", artifacts=["log"]).status_code == 200
    assert names_of(service, claimed) == ["log"]
    service.post("/v1/tasks/requeue", {"taskIds": [claimed["task"]["id"]]})
    assert names_of(service, claimed) == []
    again = service.claim(command)
    service.settle("result", again, status="FAILED", error="y")
    assert names_of(service, claimed) == []  # they are those of the attempt before


def test_artifacts_of_an_attempt_that_is_run_again_are_not_shown(service, command):
    claimed = claim(service, command, maxAttempts=2)
    upload(service, claimed, "log")
    service.settle("result", claimed, status="FAILED", retryable=True, artifacts=["log"])
    task = service.client.get(f"/v1/tasks/{claimed['task']['id']}").json()
    assert task["status"] in {"DELAYED", "PENDING"}
    assert names_of(service, claimed) == []


def test_a_batch_of_results_names_artifacts(service, command):
    first, second = claim(service, command), claim(service, command)
    upload(service, first, "a")
    items = [
        {"taskId": one["task"]["id"], "leaseToken": one["leaseToken"], "status": "COMPLETED", "artifacts": ["a"]}
        for one in (first, second)
    ]
    answer = service.post("/v1/tasks/result/batch", {"results": items}).json()["results"]
    assert answer[0]["status"] == "COMPLETED"
    assert answer[1]["problem"]["code"] == "artifact_missing"
    assert service.settle("result", second, status="COMPLETED").status_code == 200


def test_a_completion_names_only_what_its_attempt_has_uploaded(service, command):
    claimed = claim(service, command)
    refused = service.settle("result", claimed, status="COMPLETED", artifacts=["missing"])
    assert (refused.status_code, refused.json()["code"]) == (409, "artifact_missing")
    assert service.settle("heartbeat", claimed).status_code == 200  # the task is still in progress
    assert service.settle("abandon", claimed).status_code == 200


# Stale workers ----------------------------------------------------------------------------------------------------


def test_a_stale_worker_changes_nothing(service, command):
    stale = claim(service, command)
    upload(service, stale, "old")
    service.settle("abandon", stale)
    current = service.claim(command)
    assert upload(service, current, "new", b"new").status_code == 201
    for token in (stale["leaseToken"], "1.forged", f"{current['fence']}.{'0' * 32}"):
        refused = upload(service, {**stale, "leaseToken": token}, "new", b"stale")
        assert (refused.status_code, refused.json()["code"]) == (409, "lease_mismatch")
    late = service.settle("result", stale, status="COMPLETED", artifacts=["old"])
    assert (late.status_code, late.json()["code"]) == (409, "lease_mismatch")
    missing = service.settle("result", current, status="COMPLETED", artifacts=["old"])
    assert missing.json()["code"] == "artifact_missing"  # an upload belongs to its attempt
    assert service.settle("result", current, status="COMPLETED", artifacts=["new"]).status_code == 200
    assert download(service, current, "new").content == b"new"
    ended = upload(service, current, "later")
    assert (ended.status_code, ended.json()["code"]) == (409, "not_in_progress")
    late = service.settle("result", stale, status="COMPLETED", artifacts=["old"])
    assert late.status_code == 409
    assert names_of(service, current) == ["new"]


def test_an_upload_keeps_the_lease(service, command):
    claimed = claim(service, command)
    before = service.get(f"/v1/tasks/{claimed['task']['id']}").json()["leaseUntil"]
    answer = upload(service, claimed, "a").json()
    assert answer["leaseUntil"] >= before
    service.client.post(f"/v1/tasks/{claimed['task']['id']}/cancel")
    assert upload(service, claimed, "b").json()["cancelRequested"] is True
    service.settle("abandon", claimed)


# What is refused --------------------------------------------------------------------------------------------------


def test_an_artifact_is_never_overwritten(service, command):
    claimed = claim(service, command)
    assert upload(service, claimed, "a").status_code == 201
    assert upload(service, claimed, "a").status_code == 200  # the same again
    other = upload(service, claimed, "a", b"other")
    assert (other.status_code, other.json()["code"]) == (409, "artifact_exists")
    service.settle("result", claimed, status="COMPLETED", artifacts=["a"])
    assert download(service, claimed, "a").content == CONTENT


def test_the_digest_of_an_upload_is_checked(service, command):
    claimed = claim(service, command)
    wrong = upload(service, claimed, "a", **{"content-digest": content_digest(b"other")})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "digest_mismatch")
    for value in ("sha-256=:AAAA:", "md5=:AAAA:", "nonsense", "sha-256=:*:", "sha-256=:=:", ""):
        assert upload(service, claimed, "a", **{"content-digest": value}).status_code == 400, value
    both = f"sha-512=:AAAA:, {content_digest(CONTENT)}"
    assert upload(service, claimed, "a", **{"content-digest": both}).status_code == 201
    service.settle("abandon", claimed)


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fetc%2fpasswd",
        "a%2fb",
        "a%5cb",
        "a%00b",
        "a%0ab",
        "%20",
        "%252e",
        "a/b",
        "%E2%80%AEfdp.exe",
        "%ED%A0%80",
        "%FF",
        "a%22b",
        "x" * 200,
    ],
)
def test_a_hostile_name_is_refused(service, command, path):
    claimed = claim(service, command)
    before = len(files_of(service))
    request = service.client.build_request(
        "PUT", service.url, content=b"x", headers={"lease-token": claimed["leaseToken"]}
    )
    request.url = request.url.copy_with(raw_path=f"/v1/tasks/{claimed['task']['id']}/artifacts/{path}".encode())
    answer = service.client.send(request)
    assert answer.status_code in {400, 404, 405}, answer.text
    assert len(files_of(service)) == before
    service.settle("abandon", claimed)


def test_a_name_in_a_completion_is_checked(service, command):
    claimed = claim(service, command)
    for name in ("../a", "", "a\n", "x" * 200, "\u202ea", 7):
        refused = service.settle("result", claimed, status="COMPLETED", artifacts=[name])
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request"), name
    service.settle("abandon", claimed)


def test_an_upload_without_a_token_or_with_a_bad_head_is_refused(service, command):
    claimed = claim(service, command)
    path = f"/v1/tasks/{claimed['task']['id']}/artifacts/a"
    assert service.client.put(path, content=b"x").json()["code"] == "invalid_request"
    twice = httpx.Headers([("lease-token", claimed["leaseToken"]), ("lease-token", "1.x")])
    assert service.client.put(path, content=b"x", headers=twice).status_code == 400
    assert upload(service, claimed, "a", **{"content-encoding": "gzip"}).status_code == 415
    assert upload(service, claimed, "a", **{"content-type": "text/html\tx"}).status_code == 400
    assert service.client.put("/v1/tasks/unknown/artifacts/a", headers={"lease-token": "1.x"}).status_code == 404
    assert service.get("/v1/tasks/unknown/artifacts").status_code == 404
    assert service.get("/v1/tasks/unknown/artifacts/a").status_code == 404
    service.settle("abandon", claimed)


def test_an_upload_that_is_cut_off_leaves_nothing(service, command):
    claimed = claim(service, command)
    before = len(files_of(service))

    def cut_off():
        yield b"x" * 2_000_000
        raise ConnectionError("the worker dies")

    with pytest.raises(ConnectionError):
        upload(service, claimed, "a", cut_off())
    assert upload(service, claimed, "b").status_code == 201
    wait_until(lambda: len(files_of(service)) == before + 1)
    service.settle("abandon", claimed)


def test_a_service_without_a_folder_keeps_no_artifacts(sqlite_service, command):
    claimed = claim(sqlite_service, command)
    answers = [
        upload(sqlite_service, claimed, "a"),
        sqlite_service.settle("result", claimed, status="COMPLETED", artifacts=["a"]),
        sqlite_service.get(f"/v1/tasks/{claimed['task']['id']}/artifacts"),
    ]
    assert [(one.status_code, one.json()["code"]) for one in answers] == [(422, "unsupported")] * 3
    sqlite_service.settle("abandon", claimed)
