"""Workers: claim, long poll, heartbeat, result, nack, abandon; stale and repeated calls."""

from __future__ import annotations

import socket
import time
from datetime import timedelta

import pytest

from holdfast import Client, JobRequest
from holdfast.clock import SECOND
from holdfast.drivers.requests import Inspect, Reap
from holdfast.retry import Fixed
from holdfast.service.tenants.handed_out import HandedOutLeases
from tests.service.http_service import in_thread, running_service, sqlite_url
from tests.waiting import wait_until


def test_a_claim_with_a_limit_returns_a_list_in_the_order_of_priority(service, command):
    ids = [service.enqueue(command, priority=priority) for priority in (1, 9, 5)]
    answer = service.post("/v1/tasks/claim", {"commands": [command], "limit": 2}).json()
    assert [claim["task"]["id"] for claim in answer["claims"]] == [ids[1], ids[2]]
    assert (
        service.post("/v1/tasks/claim", {"commands": [command], "limit": 5}).json()["claims"][0]["task"]["id"] == ids[0]
    )
    assert service.post("/v1/tasks/claim", {"commands": [command], "limit": 5}).status_code == 204


def test_tasks_of_a_queue_are_claimed_by_its_name(service, command):
    service.enqueue(command, queue="other")
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204
    assert service.claim(command, queues=["default", "other"])["task"]["queue"] == "other"


def test_tasks_of_a_domain_are_claimed_one_at_a_time(service, command):
    ids = [service.enqueue(command, domain=command) for _ in range(2)]
    claim = service.claim(command)
    assert claim["task"]["id"] == ids[0]
    assert service.post("/v1/tasks/claim", {"commands": [command]}).status_code == 204
    service.settle("result", claim, status="COMPLETED")
    assert service.claim(command)["task"]["id"] == ids[1]


# Long poll --------------------------------------------------------------------------------------------------


def test_a_waiting_claim_is_answered_when_a_task_comes(service, command):
    claim = in_thread(lambda: service.claim(command, waitSeconds=50))
    time.sleep(0.2)  # so that it waits; without the pause the test is weaker, not wrong
    task_id = service.enqueue(command)
    assert claim()["task"]["id"] == task_id


def test_a_waiting_claim_sees_a_task_of_another_process(service, command):
    from holdfast.client import Client
    from holdfast.model.request import JobRequest

    claim = in_thread(lambda: service.claim(command, waitSeconds=50))
    time.sleep(0.2)  # as above
    task_id = Client(service.store).enqueue(JobRequest(type=command, payload=[1])).id
    assert claim()["task"]["id"] == task_id


def test_many_claims_that_wait_get_one_task_each(service, command):
    claims = [in_thread(lambda: service.claim(command, waitSeconds=50)) for _ in range(10)]
    time.sleep(0.2)  # as above
    ids = {service.enqueue(command) for _ in range(10)}
    assert {claim()["task"]["id"] for claim in claims} == ids


def test_a_claim_that_waits_in_vain_is_answered_with_204(service, command):
    answer = service.post("/v1/tasks/claim", {"commands": [command], "waitSeconds": 0.3})
    assert (answer.status_code, answer.content) == (204, b"")
    assert service.post("/v1/tasks/claim", {"commands": [command], "waitSeconds": 61}).status_code == 400


def test_a_waiting_claim_gets_a_task_whose_lease_has_expired(service, command):
    task_id = service.enqueue(command)
    service.claim(command, leaseSeconds=1)
    claim = service.claim(command, waitSeconds=50)
    assert (claim["task"]["id"], claim["task"]["attempts"]) == (task_id, 2)


def test_a_task_is_not_lost_to_a_worker_that_went_away_while_it_waited(service, command):
    host, port = service.url.removeprefix("http://").split(":")
    body = f'{{"commands":["{command}"],"waitSeconds":50,"leaseSeconds":3600}}'
    head = f"POST /v1/tasks/claim HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port))) as gone:
        gone.sendall((head + body).encode())
        tenant = service.service.tenant("main")
        wait_until(lambda: any(one.want.types == (command,) for one in tenant._waiting._waiting))
    wait_until(lambda: not any(one.want.types == (command,) for one in tenant._waiting._waiting))
    task_id = service.enqueue(command)
    assert service.claim(command)["task"]["id"] == task_id


# The end of a lease -----------------------------------------------------------------------------------------


def test_a_heartbeat_extends_the_lease_and_carries_progress(service, command):
    task_id = service.enqueue(command)
    claim = service.claim(command, leaseSeconds=5)
    extended = service.settle("heartbeat", claim, leaseSeconds=600, progress={"done": 1})
    assert extended.status_code == 200
    assert extended.json()["leaseUntil"] > claim["leaseUntil"]
    task = service.get(f"/v1/tasks/{task_id}").json()
    assert (task["leaseUntil"], task["progress"]) == (extended.json()["leaseUntil"], {"done": 1})


def test_a_heartbeat_without_a_length_keeps_the_length_that_was_claimed(service, command):
    service.enqueue(command)
    claim = service.claim(command, leaseSeconds=600)
    first = service.settle("heartbeat", claim)
    assert (first.status_code, first.json()["leaseSeconds"]) == (200, 600)
    assert first.json()["leaseUntil"] >= claim["leaseUntil"]
    assert service.settle("heartbeat", claim, leaseSeconds=20).json()["leaseSeconds"] == 20
    assert service.settle("heartbeat", claim).json()["leaseSeconds"] == 600
    tenant = service.service.tenant("main")
    tenant.handed_out = HandedOutLeases()  # as after a restart, and in another process
    assert service.settle("heartbeat", claim).json()["leaseSeconds"] == 600


@pytest.mark.parametrize("length", ["1", "999999999999999", "-5", "x", "", "9" * 40, "1.5"])
def test_the_length_in_a_lease_token_gives_no_other_lease_than_the_settings_allow(service, command, length):
    service.enqueue(command)
    claim = service.claim(command, leaseSeconds=600)
    fence, secret, _ = claim["leaseToken"].split(".")
    answer = service.settle("heartbeat", {**claim, "leaseToken": f"{fence}.{secret}.{length}"})
    assert answer.status_code == 409 or 1 <= answer.json()["leaseSeconds"] <= 3600


def test_failed_with_a_result_is_refused_and_says_where_to_put_it(service, command):
    task_id = service.enqueue(command)
    claim = service.claim(command)
    answer = service.settle("result", claim, status="FAILED", result={"partial": 1})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (400, "invalid_request", "result")
    item = {"taskId": task_id, "leaseToken": claim["leaseToken"], "status": "FAILED", "result": 1}
    [refused] = service.post("/v1/tasks/result/batch", {"results": [item]}).json()["results"]
    assert refused["problem"]["field"] == "result"
    assert service.get(f"/v1/tasks/{task_id}").json()["status"] == "IN_PROGRESS"


def test_failed_is_final(service, command):
    task_id = service.enqueue(command)
    answer = service.settle("result", service.claim(command), status="FAILED", error="no such address")
    assert answer.json() == {"taskId": task_id, "status": "FAILED"}
    result = service.get(f"/v1/tasks/{task_id}/result").json()
    assert (result["status"], result["error"], result["reason"]) == (
        "FAILED",
        "no such address",
        "failed by its worker",
    )


def test_a_nack_without_a_delay_uses_the_policy_of_the_settings(service, command):
    task_id = service.enqueue(command)
    answer = service.settle("nack", service.claim(command)).json()
    record = service.store.get(task_id)
    delay = 0 if record.run_at is None else record.run_at - record.failed_at
    assert answer["delaySeconds"] == pytest.approx(delay / SECOND)
    assert delay <= 3600 * SECOND


@pytest.mark.parametrize(("verb", "status"), [("nack", "CANCELLED"), ("abandon", "CANCELLED"), ("result", "CANCELLED")])
def test_the_end_of_a_lease_says_that_the_task_was_cancelled(service, command, verb, status):
    task_id = service.enqueue(command)
    claim = service.claim(command)
    service.client.post(f"/v1/tasks/{task_id}/cancel")
    answer = service.settle(verb, claim, **({"status": "FAILED"} if verb == "result" else {}))
    assert answer.json() == {"taskId": task_id, "status": status}


def test_an_abandoned_task_waits_again_and_its_attempt_does_not_count(service, command):
    task_id = service.enqueue(command, maxAttempts=1)
    answer = service.settle("abandon", service.claim(command)).json()
    assert answer == {"taskId": task_id, "status": "PENDING", "delaySeconds": 0}
    assert service.claim(command)["task"]["attempts"] == 1


# Stale and repeated calls -----------------------------------------------------------------------------------


def test_an_expired_lease_is_refused(service, command):
    task_id = service.enqueue(command)
    claim = service.claim(command, leaseSeconds=1)
    wait_until(
        lambda: (
            service.store.do(Inspect(job_ids=[task_id]))[task_id].expires_at
            < service.service.tenant("main").clock.now()
        )
    )
    answer = service.settle("result", claim, status="COMPLETED")
    assert (answer.status_code, answer.json()["code"]) in [(409, "lease_expired"), (409, "not_in_progress")]
    assert "will be claimed" not in answer.json()["detail"]  # not after the last attempt
    assert service.get(f"/v1/tasks/{task_id}").json()["status"] != "COMPLETED"


@pytest.mark.parametrize("verb", ["heartbeat", "result", "nack", "abandon"])
def test_every_call_of_a_worker_needs_a_token(service, command, verb):
    task_id = service.enqueue(command)
    service.claim(command)
    fields = {"status": "COMPLETED"} if verb == "result" else {}
    assert service.post(f"/v1/tasks/{task_id}/{verb}", fields).json()["code"] == "invalid_request"
    assert service.get(f"/v1/tasks/{task_id}").json()["status"] == "IN_PROGRESS"


def test_each_result_of_a_batch_has_its_own_outcome(service, command):
    for _ in range(4):
        service.enqueue(command)
    claims = service.post("/v1/tasks/claim", {"commands": [command], "limit": 4}).json()["claims"]
    items = [{"taskId": claim["task"]["id"], "leaseToken": claim["leaseToken"]} for claim in claims]
    results = [
        {**items[0], "status": "COMPLETED", "result": 1},
        {**items[1], "status": "FAILED", "error": "no"},
        {**items[2], "status": "COMPLETED", "leaseToken": "1.0"},
        {**items[3], "status": "COMPLETED", "result": "x" * (1 << 20)},
        {"taskId": "unknown", "leaseToken": "1.0", "status": "COMPLETED"},
    ]
    answer = service.post("/v1/tasks/result/batch", {"results": results}).json()["results"]
    outcomes = [item["status"] if "status" in item else item["problem"]["code"] for item in answer]
    assert outcomes == ["COMPLETED", "FAILED", "lease_mismatch", "body_too_large", "not_found"]
    assert service.post("/v1/tasks/result/batch", {"results": results}).json()["results"] == answer


def claim_many(service, command, count: int, **fields) -> list[dict[str, str]]:
    """Return the ids and lease tokens of new tasks, which are claimed."""
    for _ in range(count):
        service.enqueue(command, maxAttempts=fields.pop("maxAttempts", 5))
    claims = service.post("/v1/tasks/claim", {"commands": [command], "limit": count, **fields}).json()["claims"]
    return [{"taskId": claim["task"]["id"], "leaseToken": claim["leaseToken"]} for claim in claims]


def test_each_nack_of_a_batch_has_its_own_outcome(service, command):
    items = claim_many(service, command, 3)
    service.client.post(f"/v1/tasks/{items[1]['taskId']}/cancel")
    tasks = [
        {**items[0], "delaySeconds": 3600, "reason": "busy"},
        items[1],
        {**items[2], "leaseToken": "1.0"},
        {"taskId": "unknown", "leaseToken": "1.0"},
    ]
    answer = service.post("/v1/tasks/nack/batch", {"tasks": tasks})
    assert answer.status_code == 200
    answered = answer.json()["tasks"]
    assert answered[0] == {"taskId": items[0]["taskId"], "status": "DELAYED", "delaySeconds": 3600}
    outcomes = [item["status"] if "status" in item else item["problem"]["code"] for item in answered]
    assert outcomes == ["DELAYED", "CANCELLED", "lease_mismatch", "not_found"]
    assert service.get(f"/v1/tasks/{items[0]['taskId']}").json()["error"] == "busy"
    assert service.post("/v1/tasks/nack/batch", {"tasks": tasks}).json()["tasks"] == answered


def test_a_nack_of_a_batch_uses_the_retry_policy_of_its_task(service, command):
    Client(service.store).enqueue(JobRequest(type=command, payload=1, retry=Fixed(timedelta(minutes=1))))
    claims = service.post("/v1/tasks/claim", {"commands": [command], "limit": 1}).json()["claims"]
    nacks = [{"taskId": one["task"]["id"], "leaseToken": one["leaseToken"]} for one in claims]
    [item] = service.post("/v1/tasks/nack/batch", {"tasks": nacks}).json()["tasks"]
    assert item == {"taskId": claims[0]["task"]["id"], "status": "DELAYED", "delaySeconds": 60}
    assert service.post("/v1/tasks/nack/batch", {"tasks": nacks}).json()["tasks"] == [item]


def test_a_task_that_a_batch_names_twice_has_the_first_outcome_twice(service, command):
    task_id = service.enqueue(command)
    one = {"taskId": task_id, "leaseToken": service.claim(command)["leaseToken"]}
    nacks = [{**one, "delaySeconds": seconds} for seconds in (500, 5000)]
    items = service.post("/v1/tasks/nack/batch", {"tasks": nacks}).json()["tasks"]
    assert items == [{"taskId": task_id, "status": "DELAYED", "delaySeconds": 500}] * 2


def test_each_heartbeat_of_a_batch_has_its_own_outcome(service, command):
    items = claim_many(service, command, 3, leaseSeconds=100)
    service.client.post(f"/v1/tasks/{items[1]['taskId']}/cancel")
    tasks = [
        {**items[0], "progress": 1},
        {**items[1], "leaseSeconds": 50, "progress": {"done": 2}},
        {**items[2], "leaseToken": "1.0", "progress": "stolen"},
        {"taskId": "unknown", "leaseToken": "1.0"},
        {**items[2], "progress": "x" * (64 << 10)},
    ]
    answer = service.post("/v1/tasks/heartbeat/batch", {"tasks": tasks[:4]})
    assert answer.status_code == 200
    first, second, third, fourth = answer.json()["tasks"]
    assert (first["leaseSeconds"], first["cancelRequested"]) == (100, False)
    assert (second["leaseSeconds"], second["cancelRequested"]) == (50, True)
    assert (third["problem"]["code"], fourth["problem"]["code"]) == ("lease_mismatch", "not_found")
    shown = [service.get(f"/v1/tasks/{one['taskId']}").json() for one in items]
    assert [one["progress"] for one in shown] == [1, {"done": 2}, None]
    assert (shown[0]["leaseUntil"], shown[1]["leaseUntil"]) == (first["leaseUntil"], second["leaseUntil"])
    [large] = service.post("/v1/tasks/heartbeat/batch", {"tasks": tasks[4:]}).json()["tasks"]
    assert large["problem"]["code"] == "body_too_large"


def test_a_batch_of_heartbeats_names_each_task_once(service, command):
    [item] = claim_many(service, command, 1)
    answer = service.post("/v1/tasks/heartbeat/batch", {"tasks": [item, item]})
    assert (answer.status_code, answer.json()["field"]) == (400, "tasks")


def test_heartbeats_that_meet_store_only_the_progress_of_valid_leases(service, command):
    [item] = claim_many(service, command, 1)
    path = f"/v1/tasks/{item['taskId']}/heartbeat"
    calls = [
        in_thread(lambda body=body: service.post(path, body).status_code)
        for _ in range(5)
        for body in ({"leaseToken": "1.0", "progress": "stolen"}, {"leaseToken": item["leaseToken"], "progress": "own"})
    ]
    assert sorted(call() for call in calls) == [200] * 5 + [409] * 5
    assert service.get(f"/v1/tasks/{item['taskId']}").json()["progress"] == "own"


def test_a_payload_that_is_not_json_becomes_a_dead_letter(service, command):
    from holdfast.driver import JobRecord

    bad = JobRecord(id=f"bad-{command}", type=command, queue="default", payload=b"\xff", created_at=1)
    service.store.enqueue([bad])
    good = service.enqueue(command)
    assert service.claim(command, waitSeconds=50)["task"]["id"] == good
    task = service.get(f"/v1/tasks/{bad.id}").json()
    assert (task["status"], task["reason"], task["payload"]) == ("FAILED", "bad payload", {"base64": "/w=="})


@pytest.mark.parametrize("ends", [(), ("nack",), ("abandon",)], ids=["", "nack", "abandon"])
def test_three_lost_leases_in_a_row_are_poison(tmp_path, command, ends):
    """A nack begins a new row; giving the task back does not."""
    with running_service(sqlite_url(tmp_path)) as running:
        task_id = running.enqueue(command)

        def lose_lease():
            running.claim(command, waitSeconds=20)
            [claimed] = running.store.do(Inspect(job_ids=[task_id])).values()
            assert running.store.do(Reap(worker=claimed.worker)).count == 1

        for _ in range(2):
            lose_lease()
        for verb in ends:
            running.settle(verb, running.claim(command), delaySeconds=0)
        lose_lease()
        if "nack" in ends:
            assert running.get(f"/v1/tasks/{task_id}").json()["status"] == "PENDING"
            for _ in range(2):
                lose_lease()
        found = running.get(f"/v1/tasks/{task_id}").json()
        assert (found["status"], found["reason"]) == ("FAILED", "poison")
