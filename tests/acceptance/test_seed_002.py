"""Seed 002: the guarded pipeline from a definition to the end of its job, cron, and the limits of handlers.

A case cites the line of the seed that it proves. Where the seed has a trap, the case shows what Holdfast does instead:
nothing is dropped (121), contention is not a failure (239), a key is done only when its job is (111), verification
without a key refuses to start (109), any JSON value is a payload (109). Handlers that must be interrupted run in child
processes; a store in memory has none, so those cases run on the other stores.

That a heartbeat keeps the lease of a long job (218, 226) is line 36 of seed 000. A backend of another package (267) is
found by its entry point, in tests/unit/test_connect.py.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from holdfast import Holdfast, JobBuilder, JobRequest, QueueSettings, connect
from holdfast import settings as all_settings
from holdfast.clock import HOUR
from holdfast.cron import CronRunner, FireStatus
from holdfast.driver import Ack, JobFilter, Retry, State, from_envelope, to_envelope
from holdfast.drivers.requests import Cancel, Configure, Inspect, Purge, Reap
from holdfast.errors import ConnectError, InvalidInput, LeaseMismatch
from holdfast.handlers import Event, ShellCommand, UrlRequest
from holdfast.observability import InMemoryMetrics
from holdfast.retry import Fixed, NoDelay
from tests.harnesses import SHARED_STORES
from tests.net.loopback import ALLOWED, answer, serving
from tests.waiting import wait_until

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
AN_HOUR = timedelta(hours=1)
KEY = {"HOLDFAST_SIGNING": "required", "HOLDFAST_SIGNING_KEY": "correct horse battery staple"}

in_child_processes = pytest.mark.parametrize("harness", SHARED_STORES, indirect=True)


class Killed(BaseException):
    """The process of the worker ends here."""


def app_with(driver, text: str = "", **environ: str) -> Holdfast:
    """An app on a store, with a text as its settings file and with variables of the environment."""
    app = Holdfast(driver=driver)
    app.use_settings(read_settings(text, environ))
    return app


def read_settings(text: str, environ: dict[str, str]) -> all_settings.Settings:
    """Read the settings of a file and of the environment, in the folder of the case."""
    Path(all_settings.FILE_NAME).write_text(text)
    return all_settings.read(environ=environ)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working folder of the case, with its settings file."""
    monkeypatch.chdir(tmp_path)


def statuses(app: Holdfast, count: int, **options) -> list[str]:
    """Let a worker run so many attempts."""
    worker = app.worker(**options)
    return [worker.process_once().status for _ in range(count)]


def crash(app: Holdfast, job_id: str) -> None:
    """Run a handler that raises ``Killed``, and end the lease that the worker leaves behind."""
    with pytest.raises(Killed):
        app.worker(lease=AN_HOUR).process_once()
    assert app.driver.do(Reap(worker=app.driver.do(Inspect(job_ids=[job_id]))[job_id].worker)).count == 1


# Definitions, handlers and stores -----------------------------------------------------------------------------


def test_a_builder_makes_a_definition_that_never_changes(app):
    """20, 81: a fluent builder produces an immutable definition; withXxx() returns a new instance."""
    definition = JobBuilder("t").payload({"a": 1}).queue("q").priority(5).named("n").build()
    other = definition.with_queue("other")
    assert (definition.queue, other.queue, other.priority) == ("q", "other", 5)
    with pytest.raises(FrozenInstanceError):
        definition.queue = "other"
    jobs = [app.client.get(app.client.enqueue(one.request()).id) for one in (definition, other)]
    assert [(job.queue, job.payload, job.name) for job in jobs] == [("q", b'{"a":1}', "n"), ("other", b'{"a":1}', "n")]


def test_a_handler_gets_the_context_of_its_attempt(app):
    """26, 98: payload, name, queue, attempt, meta; the state of the queue is not in it."""
    seen = []
    task = app.handler("t", queue="q", name="n", meta={"team": "growth"})(lambda _payload, ctx: seen.append(ctx))
    task.enqueue({"a": 1})
    assert statuses(app, 1) == ["acked"]
    [ctx] = seen
    assert (ctx.payload, ctx.attempt) == ({"a": 1}, 1)
    assert (ctx.job.name, ctx.job.queue, ctx.job.meta) == ("n", "q", {"team": "growth"})
    assert not hasattr(ctx.job, "state")


def test_a_handler_may_be_a_class_and_may_name_the_type_of_its_payload(app):
    """26, 265: a class with handle(context); typed handlers."""

    @dataclass
    class Order:
        number: int

    @app.handler("class")
    class Work:
        def handle(self, ctx):
            return ctx.payload

    @app.handler("typed")
    def typed(order: Order) -> int:
        return order.number

    jobs = [Work.enqueue(1), typed.enqueue(Order(2))]
    assert statuses(app, 2) == ["acked", "acked"]
    assert [app.client.result(job.id) for job in jobs] == [1, 2]


def test_the_url_selects_the_driver(h):
    """32, 38: one contract, resolved from the configuration. Redis, Beanstalk and Service Bus are not built."""
    with connect(h.url) as store:
        assert store.capabilities.driver == h.store.capabilities.driver
    with pytest.raises(ConnectError, match="redis://"):
        connect("redis://127.0.0.1/0")


def test_the_store_remembers_nothing_of_a_worker_but_the_lease(h):
    """181: stateless; the worker passes the lease back."""
    lease = h.reserve_new_job().lease
    [answer] = h.connect_again().settle([Ack(lease)], now=h.now)
    assert answer is None


SETTINGS = {
    "backends": ("url", "memory://", "memory://"),
    "verifyEnvelopeSignature": ("signing", "accept", "accept"),
    "allowedShellCommands": ("allowed_shell_commands", "/bin/true", ("/bin/true",)),
    "allowedEvents": ("allowed_events", "paid,sent", ("paid", "sent")),
    "retry": ("retry", "fixed(3s)", Fixed(timedelta(seconds=3))),
    "maxRetries": ("max_attempts", "3", 3),
    "timeout": ("timeout", "5s", timedelta(seconds=5)),
    "idempotencyTtl": ("idempotency_ttl", "2h", timedelta(hours=2)),
    "visibilityTimeout": ("lease", "1m", timedelta(minutes=1)),
    "circuitBreakerThreshold": ("breaker_threshold", "2", 2),
    "circuitBreakerCooldown": ("breaker_cooldown", "2m", timedelta(minutes=2)),
    "metricsCollector": ("metrics", "app:collector", "app:collector"),
    "environments": ("environment", "test", "test"),
}


@pytest.mark.parametrize(("name", "text", "value"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_that_the_seed_names_is_a_setting_here(name, text, value):
    """68, 149, 224, 226, 241, 254-256, 271: Config. The handlers and limits of a queue have a table in the file."""
    assert getattr(read_settings("", {f"HOLDFAST_{name.upper()}": text}), name) == value


# The wire message ---------------------------------------------------------------------------------------------


def test_a_job_of_one_store_runs_from_another_one(app):
    """32, 83-88, 224: the canonical wire object, signed, identical across every backend."""
    space = app.driver.space_name
    here, there = app_with(app.driver, **KEY), app_with(connect("memory://", space=space), **KEY)
    request = JobRequest(type="t", payload=[1], priority=3, name="n", max_attempts=5, idempotency_key="k")
    job = here.client.enqueue(request)
    wire = to_envelope(here.client.get(job.id), space=space)
    fields = json.loads(wire)
    assert [fields[name] for name in ("job", "payload", "queue", "priority", "name", "idempotencyKey")] == (
        ["t", [1], "default", 3, "n", "k"]
    )
    assert [fields[name] for name in ("identifier", "attempts", "maxRetries", "schedule")] == [job.id, 0, 4, None]
    assert fields["_sig"]
    there.driver.enqueue([from_envelope(wire).job])
    there.handler("t")(lambda payload: payload)
    assert statuses(there, 1) == ["acked"]
    assert there.client.result(job.id) == [1]


def test_the_previous_owner_of_a_reassigned_job_cannot_end_it(h):
    """90-96, 177-178, 191, 228: token, owner token, expiresAt; reapExpired returns the count."""
    old = h.reserve_new_job().lease
    assert h.expire_leases() == 1
    new = h.reserve_one().lease
    assert new.fence > old.fence
    with h.assert_unchanged():
        assert isinstance(h.settle(Ack(old))[0], LeaseMismatch)
    assert h.must_extend(new).expires_at == new.expires_at
    h.must_settle(Ack(new))


def test_the_execution_of_a_job_is_kept(app):
    """100, 113: success, output, error, startedAt, endedAt, durationSeconds(), handler."""

    @app.handler("t", capture_output=True, max_attempts=1)
    def work(payload):
        print("payload", payload)
        return 1 / payload

    done, failed = work.enqueue(1), work.enqueue(0)
    assert statuses(app, 2) == ["acked", "dead"]
    first, second = (app.client.execution(job.id) for job in (done, failed))
    assert (first.success, first.output, first.error, first.handler) == (True, "payload 1\n", "", "t")
    assert first.ended - first.started == first.duration
    assert (second.success, second.output) == (False, "payload 0\n")
    assert "ZeroDivisionError" in second.error


# The pipeline -------------------------------------------------------------------------------------------------


def test_an_attempt_in_the_process_of_the_worker_ends_its_job(app):
    """56, 105-107, 117, 125-135, 162-169, 187: acked, empty. The sync backend's verbs do nothing; these do."""
    job = app.handler("t")(lambda payload: payload).enqueue(1)
    assert statuses(app, 2) == ["acked", "empty"]
    assert (app.client.get(job.id).state, app.client.result(job.id)) == (State.DONE, 1)


def test_a_tampered_message_is_rejected_and_its_handler_never_runs(app):
    """44, 109, 250: HMAC over the identity; tampered and forged messages are abandoned, here kept as dead letters."""
    calls = []
    app = app_with(app.driver, **KEY)
    app.handler("t")(calls.append)
    signed = [app.client.get(app.enqueue("t", number).id) for number in range(3)]
    app.driver.do(Cancel(job_ids=[job.id for job in signed]))
    app.driver.do(Purge(job_ids=[job.id for job in signed]))
    signed[0] = structs.replace(signed[0], payload=b"7")
    signed[1] = structs.replace(signed[1], signature=None)
    app.driver.enqueue(signed)
    assert sorted(statuses(app, 3)) == ["acked", "rejected", "rejected"]
    assert calls == [2]
    assert {app.client.get(job.id).dead_reason for job in signed[:2]} == {"bad signature"}


def test_verification_without_a_key_refuses_to_start(app):
    """109: when verifyEnvelopeSignature is on and a key is configured. Here it fails closed."""
    unsafe = app_with(app.driver, HOLDFAST_SIGNING="required")
    with pytest.raises(InvalidInput, match="wanted a key"):
        unsafe.worker()


def test_the_signing_key_is_a_setting_or_jobs_signing_key_or_a_file():
    """250: Config signingKey, env JOBS_SIGNING_KEY, encryption key. No key is shared with another purpose."""
    own, other = "a key of sixteen bytes", "another key of sixteen bytes"
    read = read_settings("", {"HOLDFAST_SIGNING_KEY": own, "JOBS_SIGNING_KEY": other})
    assert read.signing_key.reveal() == own
    assert read_settings("", {"JOBS_SIGNING_KEY": other}).signing_key.reveal() == other
    assert read_settings("", {"HOLDFAST_SIGNING_KEY_FILE": "keys.json"}).signing_key_file == "keys.json"


def test_a_payload_is_any_json_value_and_one_that_does_not_fit_is_rejected(app):
    """109: a payload that is not a valid object is rejected. Here one that is not what the handler takes."""
    calls = []

    @app.handler("t")
    def work(payload: list[int]):
        calls.append(payload)

    bad = app.client.enqueue(JobRequest(type="t", payload="text"))
    app.client.enqueue(JobRequest(type="t", payload=[1]))
    assert sorted(statuses(app, 2)) == ["acked", "rejected"]
    assert (app.client.get(bad.id).dead_reason, calls) == ("bad payload", [[1]])


@pytest.fixture
def short_window(app):
    """The next job may have the key of one that is done: what is left is the guard at execution."""
    app.driver.do(Configure(queue="default", settings=QueueSettings(dedupe_window=1)))


def test_a_duplicate_is_acked_without_a_run(app, short_window):
    """111, 224, 237: IdempotencyGuard, status skipped-idempotent, within idempotencyTtl."""
    calls = []
    app = app_with(app.driver, 'idempotent = true\nidempotency_ttl = "1h"\n')
    task = app.handler("t")(calls.append)
    for number in range(2):
        assert not task.enqueue(number, idempotency_key="k").existed
        assert statuses(app, 1) == [("acked", "skipped")[number]]
    assert calls == [0]


def test_a_crash_between_the_mark_and_the_end_skips_nothing(app):
    """111: firstRun() marks the key before the run. Here the key is running, and done only with the ack."""
    calls = []

    @app.handler("t", idempotent=True)
    def work(payload):
        calls.append(payload)
        if len(calls) == 1:
            raise Killed

    job = work.enqueue(1, idempotency_key="k")
    crash(app, job.id)
    assert statuses(app, 1) == ["acked"]
    assert calls == [1, 1]


def test_one_attempt_runs_and_the_worker_decides_about_the_next(app):
    """50, 113, 115, 119, 171-172, 233: one attempt, never sleeps; nack(lease, delay) from the policy."""
    calls = []

    @app.handler("t", retry=Fixed(AN_HOUR))
    def work(payload):
        calls.append(payload)
        raise ValueError(payload)

    job = work.enqueue(1)
    assert statuses(app, 2) == ["retried", "empty"]
    record = app.client.get(job.id)
    assert (calls, record.run_at) == ([1], record.failed_at + HOUR)


def test_max_retries_are_one_less_than_the_runs_and_nothing_is_dropped(app):
    """119-123, 174-175, 216: total runs are maxRetries + 1; exhausted messages are dead letters on every store."""
    job = app.handler("t", max_attempts=3, retry=NoDelay())(lambda _: 1 / 0).enqueue({"a": 1})
    assert json.loads(to_envelope(app.client.get(job.id)))["maxRetries"] == 2
    assert statuses(app, 4) == ["retried", "retried", "dead", "empty"]
    [dead] = app.driver.find(JobFilter(states=(State.DEAD,)))
    assert (dead.id, dead.payload, dead.dead_reason) == (job.id, b'{"a":1}', "attempts exhausted")
    assert app.client.requeue([job.id]) == [True]
    assert statuses(app, 1) == ["retried"]


def test_a_requeue_leaves_one_row(h):
    """193: atomic reservation; requeue is an in-place UPDATE (no orphan rows)."""
    job = h.enqueue_job()
    for _ in range(3):
        h.must_settle(Retry(h.reserve_one().lease))
    [queue] = h.store.counts(now=h.now)
    assert (queue.ready, queue.inflight, queue.done, queue.dead) == (1, 0, 0, 0)
    assert h.get(job.id).attempts == 3


def test_a_crash_before_the_ack_runs_the_job_again(app):
    """212-214: at-least-once."""
    calls = []

    @app.handler("t")
    def work(_payload, ctx):
        calls.append(ctx.attempt)
        if ctx.attempt == 1:
            raise Killed

    job = work.enqueue()
    crash(app, job.id)
    assert statuses(app, 1) == ["acked"]
    assert (calls, app.client.get(job.id).attempts) == ([1, 2], 2)


# Execution and resilience -------------------------------------------------------------------------------------


@in_child_processes
def test_a_timeout_interrupts_a_handler_that_only_computes(app):
    """113, 235: even CPU-bound code is interrupted at the deadline."""

    @app.handler("t", max_attempts=1, timeout=timedelta(milliseconds=50))
    def work(_payload):
        while True:
            pass

    job = work.enqueue()
    assert app.worker(processes=1, until_drained=True).run() == {"dead": 1}
    assert "timed out" in app.client.get(job.id).last_error


def test_a_single_instance_runs_alone_and_the_other_job_waits(app):
    """113, 239: SingleInstanceLock. Contention is not a failed result: the attempt is refunded."""
    seen = []

    @app.handler("t", single_instance=True)
    def work(payload):
        if payload == 0:
            seen.extend(statuses(app, 1, lease=AN_HOUR))

    jobs = [work.enqueue(number) for number in range(2)]
    assert statuses(app, 1, lease=AN_HOUR) == ["acked"]
    assert seen == ["released"]
    waiting = app.client.get(jobs[1].id)
    assert (waiting.state, waiting.attempts) == (State.READY, 0)


def test_a_breaker_stops_what_fails_for_every_worker(app):
    """74, 140, 241: circuitBreakerThreshold, circuitBreakerCooldown."""
    app = app_with(app.driver, 'breaker_threshold = 2\nbreaker_cooldown = "1h"\n')
    broken = app.handler("broken", retry=NoDelay())(lambda _: 1 / 0)
    app.handler("healthy")(lambda _: None).enqueue()
    broken.enqueue_many(range(3))
    assert sorted(statuses(app, 3)) == ["acked", "retried", "retried"]
    assert statuses(app, 1, name="another worker") == ["empty"]


def test_a_queue_has_a_rate_over_all_workers(app):
    """74, 140, 241: queueRateLimits."""
    app = app_with(app.driver, '[queues.default]\nrate = "1/h"\nburst = 2\n')
    app.handler("t")(lambda _: None).enqueue_many(range(3))
    assert statuses(app, 1) + statuses(app, 2, name="another worker") == ["acked", "acked", "empty"]


@in_child_processes
def test_a_worker_that_is_stopped_finishes_the_job_in_flight(app, tmp_path):
    """140, 243: graceful shutdown; the in-flight job is not aborted mid-run."""

    @app.handler("t")
    def work(_payload):
        (tmp_path / "started").touch()
        wait_until((tmp_path / "stopping").exists)

    work.enqueue_many(range(2))
    stop, worker = threading.Event(), app.worker(processes=1)
    running = threading.Thread(target=worker.run, args=(stop,))
    worker.prepare()
    running.start()
    wait_until((tmp_path / "started").exists)
    stop.set()
    wait_until(lambda: worker.is_stopping)
    (tmp_path / "stopping").touch()
    running.join()
    assert worker.tally.statuses["acked"] == 1
    assert [app.driver.counts()[0].done, app.driver.counts()[0].ready] == [1, 1]


@in_child_processes
def test_a_collector_counts_what_became_of_jobs(h):
    """74, 271: MetricsCollectorInterface."""
    app = Holdfast(driver=h.store, metrics=(metrics := InMemoryMetrics()))
    app.handler("t")(lambda _: None).enqueue()
    assert metrics.value("holdfast_jobs_enqueued_total", queue="default", type="t") == 1
    assert app.worker(processes=1, until_drained=True).run() == {"acked": 1}
    assert metrics.value("holdfast_jobs_settled_total", queue="default", type="t", outcome="acked") == 1


def test_a_class_with_one_method_is_a_retry_policy(app):
    """50, 269: implement RetryPolicy."""

    class Growing:
        def delay(self, attempt: int, random: float) -> timedelta:
            return (attempt + random) * AN_HOUR

    job = app.handler("t", retry=Growing())(lambda _: 1 / 0).enqueue()
    assert statuses(app, 1) == ["retried"]
    record = app.client.get(job.id)
    assert HOUR <= record.run_at - record.failed_at <= 2 * HOUR


# Security -----------------------------------------------------------------------------------------------------


def test_a_type_that_is_not_listed_for_a_queue_is_refused(app):
    """26, 111, 252: queueHandlers."""
    calls = []
    app = app_with(app.driver, '[queues.mail]\nhandlers = ["mail.send"]\n[queues.closed]\nhandlers = []\n')
    send = app.handler("mail.send", queue="mail")(calls.append)
    other = app.handler("shell")(calls.append)
    bad = {"mail": other.enqueue(1, queue="mail"), "closed": send.enqueue(1, queue="closed")}
    send.enqueue(2)
    other.enqueue(3)  # its queue has no list
    assert sorted(statuses(app, 4, queues=("mail", "default", "closed"))) == ["acked", "acked", "dead", "dead"]
    assert sorted(calls) == [2, 3]
    for queue, job in bad.items():
        record = app.client.get(job.id)
        assert (record.dead_reason, record.attempts) == ("not allowed", 1)
        assert f"allow in the queue {queue}" in record.last_error


def test_no_program_runs_that_is_not_allowed_and_no_shell_reads_its_arguments(app):
    """254: deny by default; an argv array, never /bin/sh -c."""
    printf = "/usr/bin/printf"
    command = ShellCommand(argv=[printf, "%s", "$(id); `id` | id"])
    shell = app.builtin.shell()
    denied = shell.enqueue(command)
    assert statuses(app, 1) == ["dead"]
    assert app.client.get(denied.id).dead_reason == f"not allowed: '{printf}' is not in allowed_shell_commands"
    app.use_settings(replace(app.settings, allowed_shell_commands=(printf,)))
    job = shell.enqueue(command)
    assert statuses(app, 1) == ["acked"]
    assert app.client.result(job.id)["stdout"] == "$(id); `id` | id"


def test_only_allowed_events_are_fired(app):
    """256: empty = deny all."""
    calls = []
    event = app.builtin.event()
    app.on("user.deleted")(calls.append)
    denied = event.enqueue(Event(name="user.deleted", payload=1))
    assert statuses(app, 1) == ["dead"]
    assert app.client.get(denied.id).dead_reason == "not allowed: the event 'user.deleted' is not in allowed_events"
    app.use_settings(replace(app.settings, allowed_events=("user.deleted",)))
    event.enqueue(Event(name="user.deleted", payload=2))
    assert statuses(app, 1) == ["acked"]
    assert calls == [2]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://127.0.0.1/", "http://169.254.169.254/", "http://[::1]/"])
def test_no_request_goes_to_a_private_address_or_another_scheme(app, url):
    """258: http/https only, private/reserved IPv4/IPv6 rejected."""
    job = app.builtin.url(allowed=["http://*", "https://*"], max_attempts=1).enqueue(UrlRequest(url=url))
    assert statuses(app, 1) == ["dead"]
    assert app.client.get(job.id).dead_reason.startswith("not allowed")


@pytest.mark.parametrize(("tls", "error"), [(False, "redirects are not followed"), (True, "certificate")])
def test_a_request_follows_no_redirect_and_trusts_no_unknown_certificate(app, tls, error):
    """258: SSL verification forced, redirects disabled."""
    redirect = answer(status="302 Found", headers="Location: http://127.0.0.1/\r\n")
    with serving(redirect, tls=tls) as server:
        address = f"http{'s' * tls}://{ALLOWED}:{server.port}"
        url = app.builtin.url(allowed=[address], allowed_networks=[ALLOWED], max_attempts=1)
        job = url.enqueue(UrlRequest(url=address))
        assert statuses(app, 1) == ["dead"]
    record = app.client.get(job.id)
    assert error in f"{record.dead_reason} {record.last_error}"


# Cron ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def fire(app) -> Callable[..., dict[str, FireStatus]]:
    """A function that fires what is due at six; returns the statuses by schedule, in their order."""
    return lambda **options: {one.schedule: one.status for one in CronRunner(app, **options).run(now=SIX)}


def test_schedules_run_in_the_order_of_their_dependencies(app, fire):
    """62, 145-147: a fluent registry, topological order of dependsOn()."""
    app.handler("t", queue="q")(lambda _: None)
    app.cron("third").every_minute().queue("q").depends_on("second").run("t")
    app.cron("first").every_minute().queue("q").run("t")
    app.cron("second").every_minute().queue("q").depends_on("first").run("t")
    assert list(fire()) == ["first", "second", "third"]


@pytest.mark.parametrize(("dependency", "error"), [("b", "without a cycle"), ("c", "depends_on of schedule a")])
def test_circular_and_unknown_dependencies_are_errors(app, dependency, error):
    """147: throws on circular/unknown dependencies."""
    app.handler("t")(lambda _: None)
    app.cron("a").every_minute().depends_on(dependency).run("t")
    app.cron("b").every_minute().depends_on("a").run("t")
    with pytest.raises(InvalidInput, match=error):
        CronRunner(app)


def test_schedules_that_are_disabled_or_of_other_environments_or_not_due_are_skipped(app, fire):
    """149: enabled(), environments(), the expression against a frozen -testTime."""
    app.handler("t")(lambda _: None)
    app.cron("off").every_minute().queue("q").enabled(False).run("t")
    app.cron("elsewhere").every_minute().queue("q").environments("production").run("t")
    app.cron("seven").expression("0 7 * * *").queue("q").run("t")
    app.cron("six").expression("0 6 * * *").queue("q").environments("test").run("t")
    assert fire(environment="test") == {"six": FireStatus.ENQUEUED}


def test_a_due_schedule_with_a_queue_is_enqueued_and_one_without_runs_inline_once(app):
    """151: enqueued, otherwise one attempt inline; never sleeps between jobs."""
    task = app.handler("t")(lambda payload: payload)
    app.handler("fail", retry=Fixed(AN_HOUR))(lambda _: 1 / 0)
    app.cron("queued").every_minute().queue("q").run(task, 1)
    app.cron("inline").every_minute().run(task, 2)
    app.cron("broken").every_minute().run("fail")
    fired = {one.schedule: one for one in CronRunner(app).run(now=SIX)}
    assert {name: one.status for name, one in fired.items()} == {
        "queued": FireStatus.ENQUEUED,
        "inline": FireStatus.DONE,
        "broken": FireStatus.FAILED,
    }
    assert app.client.get(fired["queued"].job_id).state is State.READY
    assert app.client.result(fired["inline"].job_id) == 2
    assert app.client.get(fired["broken"].job_id).attempts == 1
