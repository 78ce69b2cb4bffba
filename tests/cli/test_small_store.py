"""Commands on a store that has the core alone: they show what it knows, and say what it lacks."""

import pytest

from holdfast import Client, JobRequest
from holdfast.cli import session
from holdfast.clock import MINUTE
from holdfast.model.settlement import Ack
from tests.in_memory import CORE_ALONE, InMemory


@pytest.fixture
def store(monkeypatch):
    monkeypatch.setenv("HOLDFAST_URL", "memory://")
    opened = InMemory(declined=CORE_ALONE)
    monkeypatch.setattr(session, "connect", lambda *_, **__: opened)
    monkeypatch.setattr(opened, "close", lambda: None)
    return opened


def test_a_job_is_shown_and_waited_for(store, run):
    answer = Client(store).enqueue(JobRequest(type="mail.send", payload={"to": "ada"}))
    shown = run("job", "show", answer.id)
    assert "mail.send" in shown.out
    [held] = store.reserve(["default"], limit=1, lease_for=MINUTE)
    assert run("job", "show", answer.id, "--json").json["state"] == "inflight"
    store.settle([Ack(held.lease)])
    assert Client(store).wait(answer.id, timeout=1).state == "done"
    assert run("job", "wait", answer.id, "--json").json["state"] == "done"


def test_what_it_lacks_is_said(store, run):
    for words in (["job", "list"], ["queue", "list"], ["ledger"]):
        result = run(*words, code=1)
        assert "the small driver does not offer" in result.err
