"""``holdfast doctor`` warns of webhooks that nobody calls, and shows no secret."""

from __future__ import annotations

from holdfast.clock import SystemClock
from holdfast.driver import JobRecord
from holdfast.drivers.requests import Cancel
from holdfast.webhooks.callbacks import CallbackReader
from tests.webhook_receiver import SECRET


def warnings(run) -> list[str]:
    return [one["text"] for one in run("doctor", "--json").json["checks"] if one["name"] == "webhooks"]


def test_doctor_warns_of_webhooks_until_a_process_calls_them(run, filled):
    assert warnings(run) == []
    record = JobRecord(id="hooked", type="t", queue="q", payload=b"1", created_at=1, webhook="https://example.org/")
    filled.enqueue([record])
    assert warnings(run) == []
    filled.do(Cancel(job_ids=["hooked"]))
    [text] = warnings(run)
    assert text.startswith("1 of the last jobs that ended have a webhook")
    CallbackReader(filled, space="main", name="test", signer=None, clock=SystemClock()).read()
    assert warnings(run) == []


def test_doctor_shows_that_there_is_a_secret_and_not_the_secret(run, filled, monkeypatch):
    monkeypatch.setenv("HOLDFAST_WEBHOOKS_SECRET", SECRET)
    shown = run("doctor", "--json")
    assert SECRET[6:] not in shown.out
    assert "webhooks_secret" in shown.out
