"""``holdfast enqueue``."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from holdfast import JobRequest
from holdfast.cli.commands.enqueue import enqueue as enqueue_command
from holdfast.clock import DAY, MINUTE, SECOND


def test_a_job_is_stored_and_its_id_printed(run, url, store):
    [job_id] = run("enqueue", "mail.send", '{"to": "a"}').out.split()
    job = store.get(job_id)
    assert (job.type, job.queue, job.payload, job.max_attempts, job.timeout) == (
        "mail.send",
        "default",
        b'{"to":"a"}',
        25,
        None,
    )


def test_every_option_is_stored(run, url, store):
    options = "--queue q --priority 7 --timeout 90s --max-attempts 3 --key k --domain d --limit-key l --name n"
    options += " --meta a=1 --meta b=x=y --webhook https://example.org/hook"
    retry = ("--retry", "exponential(1s, max 1h)")
    answer = run("enqueue", "t", "--delay", "5m", "--json", *retry, *options.split()).json
    assert (answer["existed"], answer["conflict"]) == (False, False)
    job = store.get(answer["id"])
    assert (job.queue, job.priority, job.timeout, job.max_attempts) == ("q", 7, 90 * SECOND, 3)
    assert (job.idempotency_key, job.domain, job.limit_key, job.name) == ("k", "d", "l", "n")
    assert job.webhook == "https://example.org/hook"
    assert job.meta == {"a": "1", "b": "x=y", "holdfast.retry": "exponential(1s, x2, max 1h, full jitter)"}
    assert job.run_at - job.created_at == 5 * MINUTE
    assert job.payload == b"null"


def test_a_single_instance_is_of_its_type_or_has_a_name(run, url, store):
    def meta(*arguments):
        return store.get(run("enqueue", *arguments).out.strip()).meta.get("holdfast.single_instance")

    assert meta("t", "1") is None
    assert meta("--single-instance", "t", "2") is True
    assert meta("--single-instance-key", "nightly", "t", "3") == "nightly"
    both = run("enqueue", "t", "--single-instance", "--single-instance-key", "nightly", code=2)
    assert "either --single-instance or --single-instance-key" in both.err


def test_every_field_of_a_request_has_an_option():
    names = {option.name for option in enqueue_command.params}
    assert {field.name for field in fields(JobRequest)} - {"type", "payload"} <= names


def test_run_at_is_an_instant_with_a_time_zone(run, url, store):
    answer = run("enqueue", "t", "--run-at", "2030-01-01T01:00:00+01:00", "--json").json
    assert store.get(answer["id"]).run_at == 1_893_456_000 * SECOND
    assert "got 2030-01-01T01:00:00" in run("enqueue", "t", "--run-at", "2030-01-01T01:00:00", code=2).err


def test_a_payload_comes_from_stdin_or_from_a_file(run, url, store, folder):
    (folder / "p.json").write_text("[1, 2]", encoding="utf-8")
    first = run("enqueue", "t", "@p.json").out.strip()
    second = run("enqueue", "t", "-", stdin='"text"\n').out.strip()
    assert [store.get(job_id).payload for job_id in (first, second)] == [b"[1,2]", b'"text"']


def test_a_known_key_returns_the_existing_job(run, url):
    first = run("enqueue", "t", "1", "--key", "k")
    again = run("enqueue", "t", "1", "--key", "k")
    assert again.out == first.out
    assert "existed already" in again.err
    other = run("enqueue", "t", "2", "--key", "k", code=1)
    assert other.out == first.out
    assert "another payload" in other.err


def test_defaults_come_from_the_settings(run, url, store, folder):
    (folder / "holdfast.toml").write_text('max_attempts = 4\ntimeout = "2m"\n', encoding="utf-8")
    job = store.get(run("enqueue", "t").out.strip())
    assert (job.max_attempts, job.timeout) == (4, 2 * MINUTE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t", "{bad"], "payload: wanted JSON"),
        (["t", "hello"], "text needs its quotes"),
        (["t", "@missing.json"], "missing.json: No such file"),
        (["t", "--delay", "5x"], "'--delay': wanted a length such as"),
        (["t", "--delay", "5"], "'--delay': wanted a length such as"),
        (["t", "--delay", "1m", "--run-at", "2030-01-01T00:00:00Z"], "wanted either run_at or delay"),
        (["t", "--meta", "a"], "wanted key=value, got a"),
        (["t", "--meta", "holdfast.x=1"], "meta key"),
        (["t", "--retry", "sometimes"], "'--retry': wanted a policy such as none, fixed(30s)"),
        (["t", "--priority", "12"], "priority: wanted a whole number from 0 to 9, got 12"),
        (["t", "--max-attempts", "0"], "max_attempts: wanted a whole number from 1"),
        (["t", "--queue", "no space"], "queue: wanted 1 to 128"),
        (["bad type"], "type: wanted 1 to 128"),
        ([], "wanted the TYPE"),
        (["t", "1", "2"], "unexpected extra argument"),
        (["t", "1", "--batch", "x"], "either a PAYLOAD or --batch"),
    ],
)
def test_a_usage_error_is_one_line_and_stores_nothing(run, url, store, arguments, message):
    result = run("enqueue", *arguments, code=2)
    assert message in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
    assert store.counts() == []


# A file of jobs----------------------------------------------------------------------------------------------


def batch(folder, *lines: object) -> str:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / "jobs.jsonl").write_text(text, encoding="utf-8")
    return "jobs.jsonl"


def test_a_file_of_jobs_is_stored_with_the_options_as_defaults(run, url, store, folder):
    lines = [
        {"payload": 1},
        "",
        {"type": "other", "queue": "q2", "payload": None, "delay": "1d", "idempotency_key": "k", "meta": {"a": [1]}},
        {"payload": 2, "run_at": "2030-01-01T00:00:00Z", "timeout": "5s", "retry": "fixed(3s)"},
    ]
    result = run("enqueue", "t", "--queue", "q1", "--delay", "5m", "--batch", batch(folder, *lines))
    assert result.out == "3 enqueued\n"
    jobs = {job.payload: job for job in store.find()}
    assert (jobs[b"1"].type, jobs[b"1"].queue) == ("t", "q1")
    assert jobs[b"1"].run_at == jobs[b"1"].created_at + 5 * MINUTE
    other = jobs[b"null"]
    assert (other.type, other.queue, other.idempotency_key, other.meta) == ("other", "q2", "k", {"a": [1]})
    assert other.run_at == other.created_at + DAY
    assert (jobs[b"2"].run_at, jobs[b"2"].timeout) == (1_893_456_000 * SECOND, 5 * SECOND)
    assert jobs[b"2"].meta == {"holdfast.retry": "fixed(3s, no jitter)"}


def test_a_file_from_stdin_and_answers_as_json_lines(run, url):
    stdin = "".join(json.dumps({"type": "t", "payload": n, "idempotency_key": str(n % 2)}) + "\n" for n in range(4))
    result = run("enqueue", "--batch", "-", "--json", stdin=stdin, code=1)
    assert [(line["existed"], line["conflict"]) for line in result.lines] == [(False, False)] * 2 + [(True, True)] * 2
    assert "2 jobs that existed already have another payload" in result.err


def test_more_jobs_than_one_transaction_holds(run, url, store, folder):
    name = batch(folder, *({"type": "t", "payload": n} for n in range(2500)))
    assert run("enqueue", "--batch", name).out == "2500 enqueued\n"
    assert [row.ready for row in store.counts()] == [2500]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 3: the line: wanted JSON"),
        ([1], "line 3: the line: wanted a JSON object"),
        ({"type": "t", "que": "q"}, "line 3: que: wanted one of type, payload"),
        ({"payload": 1}, "line 3: type: wanted the type of the job"),
        ({"type": "t", "delay": 5}, "line 3: delay: wanted a length"),
        ({"type": "t", "retry": 5}, "line 3: retry policy: wanted text"),
        ({"type": "t", "run_at": 5}, "line 3: run_at: wanted an instant"),
        ({"type": "t", "priority": "high"}, "line 3: priority: wanted a whole number"),
        ({"type": "t", "delay": "1s", "run_at": "2030-01-01T00:00:00Z"}, "line 3: delay: wanted either"),
    ],
)
def test_a_bad_line_is_reported_and_nothing_of_its_file_is_stored(run, store, folder, line, message):
    result = run("enqueue", "--batch", batch(folder, {"type": "t"}, "", line), code=2)
    assert message in result.err
    assert store.counts() == []


def test_a_bad_line_from_stdin_reports_how_many_jobs_were_stored(run, url, store):
    stdin = '{"type": "t"}\n' * 1000 + "{\n"
    result = run("enqueue", "--batch", "-", stdin=stdin, code=1)
    assert "line 1001" in result.err
    assert "1000 jobs of earlier lines were enqueued and remain" in result.err
    assert [row.ready for row in store.counts()] == [1000]


def test_a_missing_file_is_reported(run, url):
    assert "nowhere.jsonl: No such file" in run("enqueue", "--batch", "nowhere.jsonl", code=2).err


# As the handler says ----------------------------------------------------------------------------------------

APP = """
from dataclasses import dataclass
from datetime import timedelta

from holdfast import Holdfast

app = Holdfast()

@dataclass
class Mail:
    to: str
    copies: int = 1

@app.handler("mail.send", queue="mail", priority=3, max_attempts=5, timeout=timedelta(minutes=1), meta={"team": "a"})
def send(payload: Mail): ...

@app.enqueue_middleware
def mark(requests, call_next):
    from dataclasses import replace
    return call_next([replace(one, meta={**one.meta, "by": "middleware"}) for one in requests])
"""


@pytest.fixture
def app_path(folder, request):
    """An app in a module of its own: a module is imported once in this process."""
    name = f"tasks_{abs(hash(request.node.name))}"
    (folder / f"{name}.py").write_text(APP, encoding="utf-8")
    return f"{name}:app"


def test_a_job_is_as_the_handler_of_the_app_says(run, url, store, app_path):
    job = store.get(run("enqueue", "mail.send", '{"to": "ada"}', "--app", app_path).out.strip())
    assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("mail", 3, 5, MINUTE)
    assert job.payload == b'{"to":"ada","copies":1}'
    assert job.meta == {"team": "a", "by": "middleware"}


def test_the_app_may_stand_in_the_settings_and_options_replace_what_its_handler_says(
    run, url, store, app_path, monkeypatch
):
    monkeypatch.setenv("HOLDFAST_APP", app_path)
    options = ("--queue", "urgent", "--max-attempts", "1", "--meta", "b=1")
    job = store.get(run("enqueue", "mail.send", '{"to": "ada"}', *options).out.strip())
    assert (job.queue, job.max_attempts, job.priority) == ("urgent", 1, 3)
    assert job.meta == {"team": "a", "b": "1", "by": "middleware"}


def test_a_payload_that_the_handler_does_not_take_is_refused(run, url, app_path):
    error = run("enqueue", "mail.send", "{}", "--app", app_path, code=2).err
    assert "payload: wanted Mail, got Object missing required field `to`" in error


def test_a_type_without_a_handler_is_refused_unless_any_type_is_asked_for(run, url, store, app_path, folder):
    (folder / "holdfast.toml").write_text("max_attempts = 4\n", encoding="utf-8")
    error = run("enqueue", "mail.sned", "1", "--app", app_path, code=2).err
    assert "type: wanted a type that the app has a handler for (--any-type stores any), got mail.sned" in error
    assert error.endswith("; did you mean 'mail.send'?\n")
    assert not store.find().items
    job = store.get(run("enqueue", "mail.sned", "1", "--app", app_path, "--any-type").out.strip())
    assert (job.queue, job.max_attempts) == ("default", 4)


def test_each_line_of_a_file_is_as_its_handler_says(run, url, store, app_path, folder):
    lines = [
        {"type": "mail.send", "payload": {"to": "a"}},
        {"type": "mail.send", "payload": {"to": "b"}, "priority": 9},
        {"type": "other"},
        {"type": "other"},
    ]
    (folder / "jobs.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    error = run("enqueue", "--batch", "jobs.jsonl", "--app", app_path, code=2).err
    assert "jobs.jsonl line 3: type: wanted a type that the app has a handler for" in error
    assert not store.find().items
    result = run("enqueue", "--batch", "jobs.jsonl", "--app", app_path, "--any-type", "--json")
    jobs = [store.get(answer["id"]) for answer in result.lines]
    assert [(job.queue, job.priority) for job in jobs] == [("mail", 3), ("mail", 9), ("default", 0), ("default", 0)]
    (folder / "jobs.jsonl").write_text('{"type": "mail.send", "payload": 5}', encoding="utf-8")
    assert "line 1: payload: wanted Mail" in run("enqueue", "--batch", "jobs.jsonl", "--app", app_path, code=2).err


def test_a_job_is_unique_by_its_payload_or_key(run, url, store, folder):
    first = run("enqueue", "t", '{"a": 1, "b": 2}', "--unique", "while_open").out
    assert run("enqueue", "t", '{"b": 2, "a": 1}', "--unique", "while_open").out == first
    keyed = run("enqueue", "t", "1", "--unique", "1h", "--key", "k", "--json").json
    assert store.get(keyed["id"]).unique_for == 60 * MINUTE
    (folder / "jobs.jsonl").write_text('{"type": "t", "unique": "while_queued"}\n' * 2, encoding="utf-8")
    assert [line["existed"] for line in run("enqueue", "--batch", "jobs.jsonl", "--json").lines] == [False, True]
    assert "wanted while_queued, while_open or a length" in run("enqueue", "t", "--unique", "x", code=2).err
