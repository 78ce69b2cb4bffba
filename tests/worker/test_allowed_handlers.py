"""The allowlist of a queue: a type that is not in it becomes a dead letter, and its handler never runs."""

from datetime import timedelta

import pytest

from holdfast import Holdfast, connect, settings
from holdfast.errors import InvalidInput
from holdfast.observability import InMemoryMetrics


@pytest.fixture
def allowed(tmp_path):
    """An app with settings that allow one handler in the queue ``mail``."""
    file = tmp_path / "holdfast.toml"
    file.write_text('idempotent = true\n[queues.mail]\nhandlers = ["mail.send"]\n[queues.closed]\nhandlers = []\n')
    app = Holdfast(driver=connect("memory://"), metrics=InMemoryMetrics())
    app.use_settings(settings.read(file=file, environ={}))
    yield app
    app.close()


def test_a_type_that_is_not_allowed_in_its_queue_is_dead(allowed):
    calls = []
    send = allowed.handler("mail.send", queue="mail")(calls.append)
    shell = allowed.handler("shell")(calls.append)
    worker = allowed.worker(queues=("mail", "default", "closed"))
    assert worker.options.idempotent is True
    bad = [shell.enqueue(1, queue="mail"), send.enqueue(1, queue="closed")]
    send.enqueue(2)
    shell.enqueue(3)  # its queue has no list
    statuses = sorted(worker.process_once().status for _ in range(4))
    assert statuses == ["acked", "acked", "dead", "dead"]
    assert sorted(calls) == [2, 3]
    for job, queue in zip(bad, ("mail", "closed"), strict=True):
        record = allowed.client.get(job.id)
        assert (record.dead_reason, record.attempts) == ("not allowed", 1)
        assert f"allow in the queue {queue}" in record.last_error


def test_a_worker_applies_the_list_too(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    app.handler("t")(lambda payload: payload).enqueue(1)
    tally = app.worker(processes=1, until_drained=True, allowed_handlers={"default": ["u"]}).run()
    assert tally == {"dead": 1}
    app.close()


@pytest.mark.parametrize(
    "text", ["queues = 1", "[queues.a]\nhandlers = 1", '[queues.a]\nhandler = ["t"]', "[queues.a]\nhandlers = [1]"]
)
def test_bad_tables_are_refused(tmp_path, text):
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    with pytest.raises(InvalidInput, match="queues"):
        settings.read(file=file, environ={})


def test_the_variables_of_the_guard_are_read(tmp_path):
    (tmp_path / "holdfast.toml").write_text('idempotent = false\nidempotency_ttl = "2h"\n')
    read = settings.read(folder=tmp_path, environ={"HOLDFAST_IDEMPOTENT": "true"})
    assert (read.idempotent, read.idempotency_ttl) == (True, timedelta(hours=2))
    with pytest.raises(InvalidInput, match="HOLDFAST_IDEMPOTENT"):
        settings.read(folder=tmp_path, environ={"HOLDFAST_IDEMPOTENT": "maybe"})
