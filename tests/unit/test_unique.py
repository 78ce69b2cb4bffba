"""``unique`` of requests and handlers: the key is the payload unless a key is given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from holdfast import Client, Holdfast, JobBuilder, JobRequest, connect
from holdfast.clock import HOUR
from holdfast.driver import ack
from holdfast.errors import EnqueueConflict, InvalidInput
from holdfast.model.unique import WHILE_OPEN, WHILE_QUEUED, parse_unique


@dataclass
class Mail:
    to: str
    copies: int = 1


@pytest.fixture
def app():
    app = Holdfast("memory://")
    yield app
    app.close()


@pytest.fixture
def send(app):
    @app.handler("mail.send", unique="while_queued")
    def send(payload: Mail) -> None:
        raise AssertionError(payload)

    return send


def take(app):
    return app.driver.reserve(["default"], limit=10, lease_for=HOUR, worker="w")


def test_one_job_of_each_payload_waits(app, send):
    first = send.enqueue(Mail("ada"))
    same = [send.enqueue(Mail("ada")), send.enqueue({"copies": 1, "to": "ada"}), send.enqueue({"to": "ada"})]
    assert [(one.id, one.existed, one.conflict) for one in same] == [(first.id, True, False)] * 3
    assert not send.enqueue(Mail("bob")).existed
    job = app.client.get(first.id)
    assert (job.unique_for, job.idempotency_key.partition(":")[0]) == (WHILE_QUEUED, "unique")
    take(app)
    assert not send.enqueue(Mail("ada")).existed  # it has started, so the next one may wait


def test_other_types_have_other_keys_and_objects_are_equal_in_any_order(app):
    client = app.client
    ab, ba = {"a": 1, "b": [{"c": 1, "d": 2}]}, {"b": [{"d": 2, "c": 1}], "a": 1}
    answers = [client.enqueue(JobRequest(type=t, payload=p, unique="while_open")) for t in "xy" for p in (ab, ba)]
    assert [one.existed for one in answers] == [False, True, False, True]


def test_many_payloads_are_unique_one_by_one(app, send):
    answers = send.enqueue_many([Mail("ada"), Mail("bob"), {"to": "ada"}])
    assert [one.existed for one in answers] == [False, False, True]
    keyed = send.enqueue_many([Mail("ada"), Mail("cyd")], keys=["k", None])
    assert [one.existed for one in keyed] == [False, False]
    with pytest.raises(InvalidInput, match="keys"):
        send.enqueue_many([Mail("ada"), Mail("cyd")], keys=["k"])


def test_a_key_replaces_the_payload(app, send):
    first = send.enqueue(Mail("ada"), idempotency_key="k")
    assert app.client.get(first.id).idempotency_key == "k"
    with pytest.raises(EnqueueConflict):
        send.enqueue(Mail("bob"), idempotency_key="k")


def test_an_option_replaces_the_rule_of_the_handler(app, send):
    assert not send.enqueue(Mail("ada"), unique=None).existed
    assert app.client.get(send.enqueue(Mail("ada"), unique=None).id).idempotency_key is None
    job = app.client.get(send.enqueue(Mail("ada"), unique=timedelta(hours=1)).id)
    assert job.unique_for == HOUR


def test_while_open_ends_with_the_job(app):
    request = JobBuilder("t").unique("while_open").build().request(1)
    first = app.client.enqueue(request)
    [reservation] = take(app)
    assert app.client.enqueue(request).id == first.id
    ack(app.driver, reservation.lease)
    assert not app.client.enqueue(request).existed


def test_another_codec_hashes_its_bytes():
    class Reversed:
        name = "reversed"

        def encode(self, value):
            return value[::-1].encode()

        def decode(self, data):
            return data.decode()[::-1]

    client = Client(connect("memory://"), codec=Reversed())
    answers = [client.enqueue(JobRequest(type="t", payload=text, unique="while_open")) for text in ("ab", "ab", "ba")]
    assert [one.existed for one in answers] == [False, True, False]


@pytest.mark.parametrize("wrong", ["while_done", timedelta(0), 5, True])
def test_any_other_value_is_refused(wrong):
    with pytest.raises(InvalidInput, match="unique"):
        JobRequest(type="t", unique=wrong)
    with pytest.raises(InvalidInput, match="unique"):
        Holdfast("memory://").handler("t", unique=wrong)


def test_a_text_names_a_rule_or_a_length():
    assert parse_unique("unique", "while_open") == "while_open"
    assert parse_unique("unique", "1h") == timedelta(hours=1)
    for wrong in ("always", 5, None):
        with pytest.raises(InvalidInput, match="while_queued, while_open or a length such as"):
            parse_unique("unique", wrong)


def test_a_definition_has_the_rule():
    definition = JobBuilder("t").unique("while_open").build()
    assert definition.request(1).unique == "while_open"
    assert definition.with_unique("while_queued").request(1, unique="while_open").unique == "while_open"
    assert WHILE_OPEN == 0
