"""The public API as a user writes it. Nothing here runs: mypy and pyright check it (`python3 run check`).

``assert_type`` states what a type checker must infer. An ignored error that is no longer an error fails the check, so
the ignores state what a type checker must refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_type

from holdfast import (
    AsyncClient,
    Client,
    Codec,
    Context,
    Enqueued,
    Holdfast,
    HoldfastError,
    Job,
    JobBuilder,
    JobDefinition,
    JobRequest,
    Limits,
    QueueSettings,
    Retry,
    Snooze,
    State,
    Unrecoverable,
    Worker,
    WorkerOptions,
    __version__,
    connect,
    register_codec,
)
from holdfast.cron import CronExpression, Schedule
from holdfast.driver import Ack, JobRecord, Lease, OnExhausted, Reservation, Store, ack
from holdfast.driver import Retry as RetrySettlement
from holdfast.drivers.requests import Configure
from holdfast.errors import InvalidInput, LeaseError
from holdfast.handlers import Command, Event, ExecutionResult, ShellCommand, ShellResult, UrlRequest, UrlResult
from holdfast.observability import Health, InMemoryMetrics, Metrics
from holdfast.observability.prometheus import PrometheusMetrics
from holdfast.ordering import (
    Acquired,
    BacklogOrderingError,
    Busy,
    DomainState,
    IntervalSet,
    NextHint,
    WorkLease,
)
from holdfast.retry import Custom, Exponential, Fixed, Jitter, Linear, NoDelay, RetryPolicy

assert_type(__version__, str)

app = Holdfast("sqlite:///jobs.db")


@app.handler(
    "mail.send",
    queue="mail",
    max_attempts=5,
    timeout=timedelta(seconds=30),
    retry=Exponential(timedelta(1)),
    rate="100/s",
    burst=10,
    max_inflight=50,
    limit_key="to",
    breaker_threshold=5,
    breaker_cooldown=timedelta(minutes=1),
)
def send(payload: dict[str, str], ctx: Context) -> int:
    """A handler that makes every choice it can make."""
    assert_type(ctx.attempt, int)
    assert_type(ctx.fence, int)
    if ctx.attempt == 1:
        raise Retry(after=timedelta(seconds=5), reason="busy")
    if ctx.attempt == 2:
        raise Snooze(timedelta(minutes=1))
    if ctx.attempt == 3:
        raise Retry(after=timedelta(seconds=5), reason="429", pause_type=True, pause_key=True)
    if not payload:
        raise Unrecoverable("no address")
    return len(payload)


@app.handler("report.build", retry=Fixed(timedelta(minutes=5), jitter=Jitter.NONE))
async def build(payload: dict[str, str]) -> str:
    """An async handler."""
    return payload["name"]


def enqueue() -> None:
    """Enqueue from a handler, and with a client."""
    assert_type(send.enqueue({"to": "ada"}), Enqueued)
    send.enqueue({"to": "ada"}, delay=timedelta(hours=1), idempotency_key="welcome-ada", domain="ada", offset=1)
    send.enqueue({"to": "ada"}, limit_key="example.org")
    send.enqueue({"to": "ada"}, run_at=datetime(2030, 1, 1, tzinfo=UTC), retry=NoDelay())
    assert_type(send.enqueue_many([{"to": "ada"}, {"to": "bob"}], keys=["a", None]), list[Enqueued])
    send.enqueue(priorty=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]

    client = Client(connect("memory://"))
    request = JobRequest(type="mail.send", payload={"to": "ada"}, queue="mail", priority=9)
    assert_type(client.enqueue(request), Enqueued)
    assert_type(client.enqueue([request, request]), list[Enqueued])
    assert_type(client.get("some-id"), JobRecord | None)
    assert_type(client.wait("some-id", timeout=30), JobRecord)
    assert_type(client.cancel("some-id"), State)
    assert_type(client.requeue(["some-id"]), list[bool])
    assert_type(client.execution("some-id"), ExecutionResult | None)


async def enqueue_async() -> None:
    """The same with ``await``."""
    async with AsyncClient.open("memory://", space="shop") as opened:
        assert_type(opened, AsyncClient)
    async with AsyncClient(connect("memory://")) as client:
        assert_type(await client.enqueue(JobRequest(type="mail.send")), Enqueued)
        assert_type(await client.wait("some-id", timeout=timedelta(seconds=30)), JobRecord)


def work() -> None:
    """Run jobs: with keywords, with an options object, one at a time."""
    app.worker(processes=2, concurrency=8, lease=timedelta(minutes=1)).run(until_drained=True)
    app.worker(procesess=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    app.worker(WorkerOptions(queues=("mail",), limits=Limits(memory=1 << 30), retry=Linear(timedelta(seconds=10))))
    worker: Worker = app.worker()
    worker.process_once("mail")
    worker.stop()


def schedule() -> None:
    """Describe schedules."""
    assert_type(app.cron("mail").daily(at="06:00").weekdays().run(send, {"to": "ada"}), Schedule)
    app.cron("poll").every_minutes(5).between("08:00", "18:00").missed("all", cap=10).run("poll", [1])
    app.cron("wrong").daily().run(send, 3)  # type: ignore[misc]  # pyright: ignore[reportArgumentType,reportCallIssue]
    assert_type(CronExpression("@daily", "Europe/Berlin").next_after(datetime.now(UTC)), datetime | None)


def define() -> JobDefinition:
    """Describe a job once, enqueue it often."""
    definition = JobBuilder("mail.send").queue("mail").priority(5).build()
    assert_type(definition.request({"to": "ada"}), JobRequest)
    return definition.with_timeout(timedelta(seconds=10))


class Triple:
    """A retry policy of one's own."""

    def delay(self, attempt: int, random: float) -> timedelta:
        """See ``RetryPolicy``."""
        return timedelta(seconds=3 * attempt * random)


class Latin1:
    """A codec of one's own."""

    name = "latin-1"

    def encode(self, value: object) -> bytes:
        """See ``Codec``."""
        return str(value).encode("latin-1")

    def decode(self, data: bytes) -> object:
        """See ``Codec``."""
        return data.decode("latin-1")


policies: list[RetryPolicy] = [Triple(), Custom(lambda attempt: timedelta(seconds=attempt)), NoDelay()]
codec: Codec = Latin1()
register_codec(codec)


def handle_errors(job: Job) -> str:
    """Every error of Holdfast has one root."""
    try:
        send.enqueue({"to": job.id})
    except InvalidInput as error:
        return error.wanted
    except LeaseError as error:
        return error.job_id
    except HoldfastError as error:
        return str(error)
    return job.queue


def operate(store: Store) -> None:
    """What an operator and a driver's direct user write."""
    store.do(Configure(queue="mail", settings=QueueSettings(max_inflight=10, on_exhausted=OnExhausted.HALT)))
    reservations = store.reserve(["mail"], limit=10, lease_for=30_000_000, worker="me")
    assert_type(reservations, list[Reservation])
    for reservation in reservations:
        assert_type(reservation.lease, Lease)
        ack(store, reservation.lease)
    store.settle([Ack(reservation.lease) for reservation in reservations])
    store.settle([RetrySettlement(reservation.lease, delay=1) for reservation in reservations])


class StatsD:
    """A collector of one's own."""

    def count(self, name: str, value: float, labels: Mapping[str, str]) -> None: ...
    def observe(self, name: str, values: Sequence[float], labels: Mapping[str, str]) -> None: ...
    def gauge(self, name: str, value: float, labels: Mapping[str, str]) -> None: ...


def observe() -> None:
    """Metrics, health and traces."""
    collectors: list[Metrics] = [InMemoryMetrics(), PrometheusMetrics(), StatsD()]
    observed = Holdfast(metrics=collectors[0], tracing=True)
    health = Health()
    assert_type(observed.worker(processes=2, observers=[health]), Worker)
    assert_type(health.ready().ok, bool)
    assert_type(health.live().reasons, tuple[str, ...])
    Holdfast(metrics=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@app.on("user.created")
def greet(payload: dict[str, str]) -> None:
    """A listener stays a function."""


@app.command("reindex")
def reindex(payload: str, ctx: Context) -> int:
    """A command stays a function."""
    return ctx.attempt + len(payload)


def use_builtin_handlers() -> None:
    """Built-in handlers are tasks with types."""
    shell = app.builtin.shell(allowed=["/usr/bin/rsync"], queue="ops", timeout=timedelta(minutes=5))
    job = shell.enqueue(ShellCommand(argv=["/usr/bin/rsync"]))
    assert_type(shell.result(job), ShellResult)
    url = app.builtin.url(allowed=["https://example.org"], retried_statuses=[404], max_attempts=5)
    assert_type(url.result(url.enqueue(UrlRequest(url="https://example.org"))), UrlResult)
    app.builtin.event().enqueue(Event(name="user.created", payload={"name": "Ada"}))
    app.builtin.command().enqueue(Command(name="reindex", payload="mail"))
    shell.enqueue(UrlRequest(url="x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    greet({"name": "Ada"})


def call_command(ctx: Context) -> None:
    """A decorated function is called as before."""
    assert_type(reindex("mail", ctx), int)


def work_in_order(store: Store) -> None:
    """Answers are classes, taken apart by ``match``."""
    lease = WorkLease(max_retries=3, store=store, owner="me", lease_for=timedelta(seconds=30))
    match lease.try_acquire("customer-7", 1):
        case Acquired(token, fence=fence):
            assert_type(token, str)
            assert_type(fence, int)
            match lease.succeed("customer-7", token):
                case NextHint(offset):
                    assert_type(offset, int)
                case _:
                    pass
        case BacklogOrderingError() as error:
            assert_type(error.expected, int)
        case Busy():
            lease.resume("customer-7", "skip")
        case _:
            pass
    state = lease.state("customer-7")
    assert_type(state, DomainState)
    assert_type(state.processed, IntervalSet)
    assert_type(state.backlog, tuple[int, ...])
    WorkLease(max_retries=3, errors="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    lease.resume("customer-7", "resume")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
