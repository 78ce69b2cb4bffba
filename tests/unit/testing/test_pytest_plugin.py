"""The plugin in real pytest runs, as a user has it: loaded by its entry point, on the files of the user."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast.testing.inline  # noqa: F401 - pytester forgets modules that a run loads: half of Holdfast would be loaded twice

pytest_plugins = ["pytester"]

TASKS = """
    from dataclasses import dataclass
    from datetime import timedelta

    from holdfast.app import Holdfast
    from holdfast.model.retry import Fixed
    from holdfast.worker.control import Retry, Snooze, Unrecoverable

    app = Holdfast("sqlite:////nowhere/jobs.db")  # a test that opens it fails
    sent = []

    @dataclass
    class Mail:
        to: str
        copies: int = 1

    @app.resource
    def server():
        return sent.append

    @app.handler("mail.send", queue="mail", retry=Fixed(timedelta(minutes=1)), max_attempts=3)
    def send(payload: Mail, ctx):
        if payload.to == "nobody":
            raise LookupError("there is nobody")
        ctx.resources["server"](payload.to)
        return {"copies": payload.copies}

    @app.handler("sign.up")
    async def sign_up(payload):
        send.enqueue(Mail(payload["who"]))
        send.enqueue(Mail(payload["who"], copies=2), delay=timedelta(days=1))

    @app.handler("fussy")
    def fussy(payload):
        return {"retry": Retry(timedelta(hours=1)), "nan": float("nan"), "fine": [1, (2,)]}[payload]
"""


@pytest.fixture
def users(pytester):
    """Write the files of a user; return a function that writes a test module and runs it."""
    pytester.makeini("[pytest]\nholdfast_app = tasks:app\n")
    pytester.makepyfile(tasks=TASKS)

    def run(tests, *arguments, **modules):
        pytester.makepyfile(test_it=tests, **modules)
        return pytester.runpytest("-p", "no:cacheprovider", *arguments)

    return run


def test_the_app_enqueues_into_the_store_of_the_test(users):
    result = users("""
        import pytest
        from datetime import timedelta
        from tasks import Mail, app, send, sign_up

        @pytest.mark.parametrize("round", range(2))
        def test_it(holdfast_app, holdfast_store, assert_enqueued, enqueued, round):
            assert holdfast_app is app
            assert app.driver is holdfast_store
            assert enqueued() == []
            first = send.enqueue(Mail("ada"))
            second = send.enqueue({"to": "bob", "copies": 3})
            assert [job.id for job in enqueued("mail.send")] == [first.id, second.id]
            assert [job.payload for job in enqueued(send)] == [{"to": "ada", "copies": 1}, {"to": "bob", "copies": 3}]
            [job] = assert_enqueued(send, payload=Mail("ada"), queue="mail", count=1)
            assert (job.type, job.queue, job.state, job.run_at) == ("mail.send", "mail", "ready", None)
            assert_enqueued("mail.send", count=2)
            assert_enqueued("mail.send", payload=lambda payload: payload["copies"] > 2, count=1)
            assert_enqueued("sign.up", count=0)
            assert_enqueued(send, queue="default", count=0)

        def test_afterwards_the_app_is_as_it_was():
            with pytest.raises(Exception, match="nowhere"):
                app.driver
    """)
    result.assert_outcomes(passed=3)


def test_a_failed_assertion_lists_the_enqueued_jobs(users):
    result = users("""
        from tasks import Mail, send

        def test_another(assert_enqueued):
            send.enqueue(Mail("ada"))
            assert_enqueued(send, payload=Mail("bob"), queue="mail")

        def test_too_many(assert_enqueued):
            for _ in range(30):
                send.enqueue(Mail("ada"))
            assert_enqueued("mail.send", count=2)

        def test_nothing(assert_enqueued):
            assert_enqueued("mail.send")
    """)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*wanted at least one job of type mail.send with payload Mail(to='bob', copies=1), queue 'mail', got 0; *:",
            "*mail.send {'to': 'ada', 'copies': 1} in mail, ready",
            "*wanted 2 jobs of type mail.send, got 30; these were enqueued:",
            "*and 10 more",
            "*wanted at least one job of type mail.send, got 0; nothing was enqueued",
        ]
    )


def test_assertions_and_runs_take_what_enqueue_takes(users):
    result = users("""
        from dataclasses import dataclass
        from datetime import UTC, datetime, timedelta

        import pydantic
        import pytest
        from holdfast import Context
        from holdfast.errors import InvalidInput
        from holdfast.retry import Fixed
        from tasks import Mail, app, send

        class Letter(pydantic.BaseModel):
            at: datetime
            copies: int = 1

        @dataclass
        class Receipt:
            at: datetime
            meta: dict

        @app.handler("letter.send", meta={"team": "growth"})
        async def post(payload: list[Letter], ctx: Context) -> Receipt:
            return Receipt(payload[0].at, dict(ctx.job.meta))

        @app.handler("letter.chunk", chunk=5)
        def chunk(payloads: list[Letter]) -> list[int | Exception]:
            return [one.copies or ValueError("no copies") for one in payloads]

        NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
        OPTIONS = dict(
            queue="q", priority=4, timeout=timedelta(minutes=1), max_attempts=2, idempotency_key="k", domain="d",
            name="n", meta={"tenant": {"id": 1}}, retry=Fixed(timedelta(minutes=1)), delay=timedelta(hours=1),
            unique="while_open",
        )

        def test_payloads(assert_enqueued):
            post.enqueue([Letter(at=NOON)])
            for payload in ([Letter(at=NOON)], [{"at": NOON}], [{"at": "2030-01-01T12:00:00Z"}]):
                assert_enqueued(post, payload=payload, count=1)
                assert_enqueued("letter.send", payload=payload, count=1)
            assert_enqueued(post, payload=[Letter(at=NOON, copies=2)], count=0)
            assert_enqueued(post, payload="not a list of letters", count=0)

        def test_options(assert_enqueued):
            send.enqueue(Mail("ada"), **OPTIONS)
            assert_enqueued(send, payload=Mail("ada"), **OPTIONS)
            for name, value in OPTIONS.items():
                assert_enqueued(send, **{name: value}, count=1)
            others = dict(OPTIONS, queue="r", priority=5, timeout=None, max_attempts=3, idempotency_key=None)
            others |= dict(domain="e", name="m", meta={"tenant": 2}, retry=Fixed(timedelta(1)), delay=timedelta(1))
            others |= dict(unique="while_queued")
            for name, value in others.items():
                assert_enqueued(send, **{name: value}, count=0)
            post.enqueue([], run_at=NOON)
            assert_enqueued(post, run_at=NOON, meta={"team": "growth"})
            assert_enqueued(post, run_at=datetime(2030, 1, 1, 13, tzinfo=UTC), count=0)

        def test_runs(run_job):
            letters = [Letter(at=NOON)]
            for job in (post, "letter.send"):
                receipt = run_job(job, letters, meta={"tenant": "acme"})
                assert receipt == Receipt(NOON, {"team": "growth", "tenant": "acme"})
            assert run_job(chunk, {"at": NOON}) == 1
            with pytest.raises(ValueError, match="no copies"):
                run_job(chunk, Letter(at=NOON, copies=0))
            with pytest.raises(InvalidInput, match=r"wanted list\\[Letter\\], got 0: Input should be"):
                run_job(post, [5])
            with pytest.raises(AssertionError, match="did you mean 'letter.send'"):
                run_job("leter.send", letters)
    """)
    result.assert_outcomes(passed=3)


def test_drain_runs_due_jobs_and_the_jobs_that_they_enqueue(users):
    result = users("""
        from datetime import timedelta
        from tasks import sent, sign_up

        def test_it(drain, enqueued, holdfast_clock):
            sent.clear()
            sign_up.enqueue({"who": "ada"})
            assert drain() == {"acked": 2}
            assert [job.state for job in enqueued("mail.send")] == ["done", "ready"]
            holdfast_clock.advance(timedelta(days=1, microseconds=-1))
            assert drain() == {}
            holdfast_clock.advance(1)
            assert drain() == {"acked": 1}
            assert sent == ["ada", "ada"]

        def test_advance(drain, holdfast_clock):
            sent.clear()
            before = holdfast_clock.now()
            sign_up.enqueue({"who": "ada"})
            assert drain(advance=True) == {"acked": 3}
            assert holdfast_clock.now() - before == 86_400_000_000
            assert sent == ["ada", "ada"]
    """)
    result.assert_outcomes(passed=2)


def test_drain_counts_failures_logs_them_and_ends(users):
    result = users("""
        from datetime import timedelta
        from holdfast.model.retry import Fixed
        from tasks import Mail, app, fussy, send

        @app.handler("again")
        def again(payload):
            again.enqueue()

        def test_exhausted(drain, enqueued, holdfast_clock):
            before = holdfast_clock.now()
            send.enqueue(Mail("nobody"))
            app.client.enqueue(send.definition.request({"copies": "many"}))
            assert drain() == {"retried": 1, "rejected": 1}
            assert drain(advance=True) == {"retried": 1, "dead": 1}
            assert holdfast_clock.now() - before == 120_000_000
            assert {job.record.dead_reason for job in enqueued()} == {"attempts exhausted", "bad payload"}

        def test_a_policy_of_its_own(drain, holdfast_clock):
            before = holdfast_clock.now()
            send.enqueue(Mail("nobody"), retry=Fixed(timedelta(hours=1)))
            drain(advance=True)
            assert holdfast_clock.now() - before == 2 * 3_600_000_000

        def test_logged(drain):
            send.enqueue(Mail("nobody"))
            assert drain() == {"acked": 1}

        def test_endless(drain):
            again.enqueue()
            drain(limit=10)
    """)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["*WARNING*retried: LookupError: there is nobody*", "*wanted nothing to be due after 10 runs, got *"]
    )


def test_drain_does_not_run_the_jobs_of_others(users):
    result = users("""
        from datetime import timedelta
        from holdfast import JobRequest
        from tasks import Mail, send

        def test_it(holdfast_app, drain, enqueued):
            holdfast_app.client.enqueue(JobRequest(type="of.another.app", delay=timedelta(hours=1)))
            send.enqueue(Mail("ada"))
            holdfast_app.driver.reserve(["mail"], limit=1, lease_for=60_000_000)
            assert drain() == {}
            assert drain(advance=True) == {"acked": 1}  # when that lease had expired
            assert [job.state for job in enqueued("of.another.app")] == ["ready"]
    """)
    result.assert_outcomes(passed=1)


def test_run_job_returns_the_result_or_raises_the_exception_of_the_handler(users):
    result = users("""
        import pytest
        from holdfast.errors import PayloadError
        from holdfast.worker.control import Retry
        from tasks import Mail, app, fussy, send, sent, sign_up

        def test_task(run_job):
            assert run_job(send, Mail("ada", copies=2)) == {"copies": 2}

        def test_raised(run_job):
            with pytest.raises(LookupError, match="nobody"):
                run_job(send, {"to": "nobody"})

        def test_control(run_job):
            with pytest.raises(Retry) as raised:
                run_job(fussy, "retry")
            assert raised.value.after == 3_600_000_000

        def test_json(run_job):
            assert run_job(fussy, "fine") == [1, [2]]
            with pytest.raises(PayloadError, match="result"):
                run_job(fussy, "nan")
            with pytest.raises(PayloadError, match="Mail"):
                run_job(send, {"copies": 1})
            with pytest.raises(PayloadError, match="payload"):
                run_job(fussy, {1: 2})

        def test_plain(run_job):
            assert run_job(lambda payload: payload, (1, 2)) == [1, 2]

        def test_class_and_context(run_job):
            class Third:
                def handle(self, ctx):
                    return [ctx.payload, ctx.attempt, ctx.checkpoint]

            assert run_job(Third, 7, attempt=3, checkpoint=(1,)) == [7, 3, [1]]

        def test_middleware(run_job, monkeypatch):
            monkeypatch.setattr(app.catalogue, "middleware", [lambda ctx, call_next: [ctx.job.type, call_next()]])
            assert run_job(fussy, "fine") == ["fussy", [1, [2]]]

        def test_resource(run_job, monkeypatch):
            seen = []
            monkeypatch.setitem(app.catalogue.resources, "server", lambda: seen.append)
            run_job(send, Mail("eve"))
            assert seen == ["eve"]

        def test_nothing_is_enqueued(run_job, enqueued):
            run_job(send, Mail("ada"))
            assert enqueued() == []
            run_job(sign_up, {"who": "ada"})
            assert len(enqueued()) == 2
    """)
    result.assert_outcomes(passed=9)


def test_crash_before_ack_runs_the_job_again_after_its_lease(users):
    result = users("""
        from datetime import timedelta
        from tasks import Mail, app, send, sent, sign_up

        def test_twice(crash_before_ack, holdfast_app, holdfast_clock):
            sent.clear()
            before = holdfast_clock.now()
            answer = send.enqueue(Mail("ada"))
            result = crash_before_ack()
            assert (result.status, result.job_id) == ("acked", answer.id)
            assert sent == ["ada", "ada"]
            assert holdfast_clock.now() - before == 15_000_000
            assert [row.ending for row in holdfast_app.driver.ledger()] == ["expired", "acked"]
            assert holdfast_app.client.get(answer.id).attempts == 2

        def test_of_a_type(crash_before_ack, enqueued):
            sent.clear()
            send.enqueue(Mail("bob"))
            sign_up.enqueue({"who": "ada"})
            assert crash_before_ack(sign_up).status == "acked"
            assert [job.payload["to"] for job in enqueued("mail.send")] == ["bob", "ada", "ada", "ada", "ada"]
    """)
    result.assert_outcomes(passed=2)


def test_crash_before_ack_reports_why_there_was_no_second_run(users):
    result = users("""
        from tasks import Mail, app, send

        @app.handler("once", max_attempts=1)
        def once(payload):
            return None

        def test_none_due(crash_before_ack):
            crash_before_ack("mail.send")

        def test_failed(crash_before_ack):
            send.enqueue(Mail("nobody"))
            crash_before_ack()

        def test_exhausted(crash_before_ack):
            once.enqueue("x")
            crash_before_ack(once)
    """)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "*wanted a job of type mail.send to be due, got none",
            "*wanted a first run that succeeds, got Failed(error='LookupError: there is nobody*",
            "*wanted a second run of once 'x' *; it did not run again, it is dead, lease expired",
        ]
    )


# Finding the app --------------------------------------------------------------------------------------------------

USES = "def test_it(holdfast_app): assert holdfast_app.queues"


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("", "wanted the app under test as module:app, got nothing; set holdfast_app in *holdfast_app_path"),
        ("tasks", "wanted the app under test as module:app, got 'tasks'*"),
        ("gone.tasks:app", "holdfast_app = gone.tasks:app: there is no module gone; is it in pythonpath[?]"),
        ("tasks:application", "holdfast_app = tasks:application: *no attribute 'application'"),
        ("tasks:send", "holdfast_app = tasks:send: wanted a Holdfast app, got Task"),
        ("broken:app", "*No module named 'what_it_needs'"),
    ],
)
def test_an_app_that_cannot_be_found_is_reported_in_one_line(users, pytester, named, problem):
    pytester.makeini(f"[pytest]\nholdfast_app = {named}\n")
    result = users(USES, broken="import what_it_needs")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([problem])


@pytest.mark.parametrize("app", ["'tasks:app'", "__import__('tasks').app"])
def test_a_conftest_may_name_the_app_and_the_store(users, pytester, app):
    pytester.makeini("[pytest]\n")
    pytester.makeconftest(f"""
        import holdfast, pytest

        @pytest.fixture
        def holdfast_app_path():
            return {app}

        @pytest.fixture
        def holdfast_store(tmp_path, holdfast_clock):
            with holdfast.connect(f"sqlite:///{{tmp_path}}/jobs.db", clock=holdfast_clock) as store:
                yield store
    """)
    result = users("""
        from tasks import Mail, send

        def test_it(holdfast_app, crash_before_ack, drain):
            assert holdfast_app.driver.capabilities.driver == "sqlite"
            send.enqueue(Mail("ada"))
            assert crash_before_ack().status == "acked"
    """)
    result.assert_outcomes(passed=1)


def test_the_plugin_imports_nothing_until_a_fixture_is_used():
    """Except ``holdfast/__init__.py``, which is imported with any module of the package."""
    program = """
        import sys, holdfast
        before = set(sys.modules)
        import holdfast.testing.pytest_plugin
        print(sorted(name for name in set(sys.modules) - before if name.startswith("holdfast")))
        print("hypothesis" in sys.modules, "holdfast.worker" in sys.modules)
    """
    lines = [line.strip() for line in program.splitlines()]
    run = subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, capture_output=True, text=True)
    assert run.stdout.splitlines() == ["['holdfast.testing', 'holdfast.testing.pytest_plugin']", "False False"]


# docs/guides/testing.md -------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "testing.md"
FILE = re.compile(r"^```py\n# (\w+)\.py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_files_in_the_documentation_are_a_test_suite_that_passes(pytester):
    files = FILE.findall(PAGE.read_text(encoding="utf-8"))
    assert [name for name, _ in files[:2]] == ["tasks", "test_tasks"]
    for name, text in files:
        path = pytester.path / f"{name}.py"
        path.write_text((path.read_text() if path.exists() else "") + text)
    pytester.makeini("[pytest]\nholdfast_app = tasks:app\nfilterwarnings = error\n")
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=sum(text.count("def test_") for _, text in files))
