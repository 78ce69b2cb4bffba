"""The allowlist of a queue: a type that is not in it becomes a dead letter, and its handler never runs."""

from datetime import timedelta

import pytest

from holdfast import Holdfast, settings
from holdfast.errors import InvalidInput


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
