"""The service as a driver: what the token of a producer or worker allows, and what needs the role admin."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

import pytest

from holdfast import connect
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.http.service_calls import ServiceCalls
from holdfast.drivers.http.token import TokenSource
from holdfast.drivers.http.url import read_address
from holdfast.drivers.requests import (
    Configure,
    Diagnose,
    Enqueue,
    ForgetDomain,
    Inspect,
    LeaseTerms,
    Purge,
    Read,
    Requeue,
    Resume,
    Settings,
    Spaces,
    Trim,
    Write,
)
from holdfast.drivers.store import Store
from holdfast.errors import ConnectError, InvalidInput, StoreUnavailable, Unsupported
from holdfast.model import retention
from holdfast.model.domain import ResumeAction
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.settings.serve import AuthMode
from holdfast.worker.maintenance import Maintenance
from holdfast.worker.timing import MaintenanceTiming
from tests.service.http_service import running_service, sqlite_url

LEASE = 60_000_000
TOKENS = """
[[tokens]]
token = "driver-token-for-tests"
subject = "driver"
scopes = ["driver"]
space = "acme"
[[tokens]]
token = "mailer-token-for-tests"
subject = "mailer"
scopes = ["driver"]
event_types = ["mail.send"]
[[tokens]]
token = "producer-token-for-tests"
subject = "producer"
scopes = ["enqueue", "read", "claim"]
[[tokens]]
token = "operator-token-for-tests"
subject = "operator"
admin = true
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    (folder / "tokens.toml").write_text(TOKENS)
    with running_service(
        sqlite_url(folder), auth=(AuthMode.STATIC,), tokens_file=str(folder / "tokens.toml")
    ) as running:
        yield running


@pytest.fixture
def open_as(guarded, monkeypatch):
    """Return a function that opens the service with the token of a subject."""
    stores = []

    def open_store(subject: str, **options) -> Store:
        monkeypatch.setenv("HOLDFAST_TOKEN", f"{subject}-token-for-tests")
        stores.append(connect(guarded.url, **options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def job(number: int, **fields) -> JobRecord:
    return JobRecord(**{"id": f"j{number}", "type": "t", "queue": "q", "payload": b"1", "created_at": 1, **fields})


def test_the_token_chooses_the_space(guarded, open_as):
    store = open_as("driver")
    assert store.space_name == "acme"
    store.enqueue([job(1)])
    [reservation] = store.reserve(["q"], limit=1, lease_for=LEASE)
    assert store.settle([Ack(reservation.lease, result=b"2")]) == [None]
    assert guarded.store.space("acme").get("j1").result == b"2"
    assert guarded.store.get("j1") is None
    assert open_as("driver", space="acme").get("j1") == store.space("acme").get("j1")


def test_another_space_needs_the_role_admin(guarded, open_as):
    with pytest.raises(ConnectError, match="wanted the space of the token, acme, got other"):
        open_as("driver", space="other")
    store = open_as("driver")
    assert not store.capabilities.has(Feature.SPACES)
    facts = store.do(Diagnose())
    assert (facts.table_sizes, facts.ledger_delay) == ({}, None)  # they tell about other spaces, too
    with pytest.raises(Unsupported, match="the token is for one space"):
        store.space("main")
    with pytest.raises(Unsupported, match="the token is for one space"):
        store.do(Spaces())
    forged = ServiceCalls(read_address(urlsplit(guarded.url)), TokenSource(None))
    with pytest.raises(Unsupported, match="another space than that of the token"):
        forged.call(Inspect(job_ids=["j1"]), space="main")
    forged.connections.close()
    store.enqueue([job(6, queue="own")])
    operator = open_as("operator")
    assert operator.space("acme").space_name == "acme"
    assert "acme" in operator.do(Spaces()).items
    assert operator.do(Diagnose()).table_sizes


def test_verbs_of_operators_need_the_role_admin(open_as):
    store = open_as("driver")
    calls = {
        "requeue": lambda: store.do(Requeue(job_ids=["j1"])),
        "purge": lambda: store.do(Purge(job_ids=["j1"])),
        "resume": lambda: store.do(Resume(queue="q", domain="d", action=ResumeAction.SKIP)),
        "forget_domain": lambda: store.do(ForgetDomain(queue="q", domain="d")),
        "trim": lambda: store.do(Trim(ended_for=86_400_000_000)),
        "configure": lambda: store.do(Configure(queue="q", settings=QueueSettings(paused_until=1))),
        "unpause": lambda: store.do(Configure(queue="q", settings=QueueSettings(), only=["paused_until"])),
    }
    for name, call in calls.items():
        with pytest.raises(Unsupported, match=r"role admin|scope admin"):
            pytest.fail(f"{name} returned {call()}")
    store.do(Configure(queue="limited", settings=QueueSettings(max_inflight=1), only=["max_inflight"]))
    assert store.do(Settings(queue="limited")).max_inflight == 1
    assert not store.do(Trim()).more


@pytest.mark.parametrize("kind", ["signature.approved", "retention", "webhooks.subscription", "artifacts"])
def test_entries_that_would_give_more_rights_need_the_role_admin(open_as, kind):
    store = open_as("driver")
    change = Change(kind=kind, key="k", value=b"1")
    store.enqueue([job(2, id=kind, queue=kind)])
    [reservation] = store.reserve([kind], limit=1, lease_for=LEASE)
    for call in (
        lambda: store.do(Write(changes=[change])),
        lambda: store.do(Enqueue(jobs=[job(3)], writes=[change])).answers,
        lambda: store.settle([Ack(reservation.lease, writes=(change,))]),
    ):
        with pytest.raises(Unsupported, match=f"entries of the kind {kind} need the role admin"):
            call()
    assert store.get("j3") is None
    assert store.settle([Ack(reservation.lease)]) == [None]
    [entry] = store.do(Write(changes=[Change(kind="mine", key="k", value=b"1")]))
    assert store.do(Read(kind="mine", keys=["k"])) == [entry]


AT_ONCE = MaintenanceTiming(reap_seconds=0.0, trim_seconds=0.0, domains_seconds=0.0)


def test_a_worker_leaves_retention_to_the_service(open_as, caplog):
    store = open_as("driver")
    Maintenance(store, keep_ended=timedelta(days=2), keep_ledger=None, timing=AT_ONCE).run_due()
    assert store.do(Read(kind=retention.KIND, keys=[retention.KEY])) == [None]
    assert "maintenance.failed" not in caplog.text


def test_queues_of_the_service_are_refused(open_as):
    store, queue = open_as("driver"), "holdfast.webhooks"
    for call in (
        lambda: store.enqueue([job(4), job(5, queue=queue)]),
        lambda: store.do(Enqueue(jobs=[job(5, queue=queue)], lease=LeaseTerms(lease_for=LEASE))),
        lambda: store.enqueue(JobBatch(job(5, queue=queue), ["j5"], [b"1"])),
        lambda: store.reserve(["q", queue], limit=1, lease_for=LEASE),
        lambda: store.do(Configure(queue=queue, settings=QueueSettings(max_inflight=1), only=["max_inflight"])),
    ):
        with pytest.raises(Unsupported, match=r"the queue holdfast\.webhooks belongs to the service"):
            call()
    assert store.get("j4") is None


def test_the_types_of_a_token_limit_reserve_and_enqueue(guarded, open_as):
    store = open_as("mailer")
    guarded.store.enqueue([job(10, queue="types"), job(11, queue="types", type="mail.send")])
    with pytest.raises(Unsupported, match="the token does not allow the type t"):
        store.enqueue([job(12, type="mail.send"), job(13)])
    with pytest.raises(Unsupported, match="the token allows none of these types"):
        store.reserve(["types"], limit=1, lease_for=LEASE, types=["t"])
    [reservation] = store.reserve(["types"], limit=10, lease_for=LEASE)
    assert reservation.job.id == "j11"
    assert guarded.store.get("j12") is None


def test_a_token_that_is_refused_is_named_nowhere(open_as, caplog):
    for subject, reason in (("producer", "wanted a token with the scope driver"), ("unknown", "refused the token")):
        with pytest.raises(ConnectError, match=reason) as refused:
            open_as(subject)
        assert "token-for-tests" not in repr(refused.value) + caplog.text


def test_a_token_file_is_read_again_when_the_token_is_refused(guarded, tmp_path):
    file = tmp_path / "token"
    file.write_text("driver-token-for-tests\n")
    with connect(f"{guarded.url}?token_file={file}") as store:
        assert store.get("unknown") is None
        file.write_text("revoked-token")
        assert store.engine._service._token.refresh()
        with pytest.raises(StoreUnavailable, match="it refused the token") as refused:
            store.get("unknown")
        assert "revoked" not in str(refused.value)
        file.write_text("driver-token-for-tests")
        assert store.get("unknown") is None
    file.write_text("two words")
    with pytest.raises(InvalidInput, match="token_file: wanted a file with one token"):
        connect(f"{guarded.url}?token_file={file}")


def test_the_clock_of_a_caller_is_a_gap_of_a_service(open_as):
    store = open_as("driver", caller_clock=True)
    assert not store.capabilities.has(Feature.CALLER_CLOCK)
