"""Results of handlers: encoded like payloads; one that cannot be stored does not undo the work that was done."""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pytest

from holdfast.model import bounds
from tests.worker.conftest import ended

pytestmark = pytest.mark.timeout(120)


@dataclass
class Line:
    item: str
    price: float


class Parcel(msgspec.Struct):
    weight: float
    lines: list[Line]


@dataclass
class Keyed:
    by: dict


class EqualToNothing:
    def __eq__(self, other):
        raise RuntimeError("not to be compared")

    __hash__ = None


MIXED_KEYS = {1: "a", -2.5: "b", True + 1: "c", None: "d", False: "e", 2**80: "f", float("inf"): "g", "h": {3: 4}}
TEXT_KEYS = json.loads(json.dumps(MIXED_KEYS))
LINE = {"item": "rope", "price": 1.5}
RESULTS = {
    "a dataclass": (lambda: Line("rope", 1.5), LINE),
    "a struct": (lambda: Parcel(2.5, [Line("rope", 1.5)]), {"weight": 2.5, "lines": [LINE]}),
    "a list of them": (lambda: [Line("rope", 1.5), {"more": Line("rope", 1.5)}], [LINE, {"more": LINE}]),
    "a datetime": (lambda: datetime(2030, 1, 2, tzinfo=UTC), "2030-01-02T00:00:00Z"),
    "keys of json.dumps": (lambda: [MIXED_KEYS, Keyed(MIXED_KEYS)], [TEXT_KEYS, {"by": TEXT_KEYS}]),
}
BAD_RESULTS = {
    "NaN": (lambda: float("nan"), "result: wanted a finite number"),
    "an object": (lambda: {"deep": [object()]}, "result.deep[0]: wanted a JSON value"),
    "a tuple as a key": (lambda: {(1, 2): 3}, "a key of result"),
    "bytes as a key": (lambda: {"a": {b"x": 3}}, "a key of result.a"),
    "two keys of one text": (lambda: {1: "a", "1": "b"}, "keys of result: wanted each text once"),
    "a long number": (lambda: 2**80, "64 bits"),
    "a surrogate": (lambda: "\ud800", "lone surrogates"),
    "too large": (lambda: "x" * bounds.MAX_PAYLOAD_BYTES, "at most 1048576 bytes"),
    "one that cannot be compared": (lambda: {"a": EqualToNothing()}, "EqualToNothing"),
    "one that contains itself": (lambda: (loop := [], loop.append(loop))[0], "levels of nesting"),
}


@pytest.fixture
def model():
    """A pydantic model, where pydantic is installed."""
    pydantic = pytest.importorskip("pydantic")
    return pydantic.create_model("Order", number=(int, ...), at=(datetime, ...))


def test_results_are_encoded_like_payloads(app, drain):
    @app.handler("make")
    def make(payload):
        make_result, _ = RESULTS[payload]
        return make_result()

    answers = {name: make.enqueue(name) for name in RESULTS}
    drain()
    assert {name: app.client.result(answer.id) for name, answer in answers.items()} == {
        name: wanted for name, (_, wanted) in RESULTS.items()
    }


def test_models_of_pydantic_are_payloads_and_results_at_any_depth(app, drain, model):
    @dataclass
    class Box:
        order: model

    @app.handler("echo")
    def echo(payload):
        order = model.model_validate(payload[0])
        return [order, {"order": order}, Box(order)]

    order = model(number=7, at=datetime(2030, 1, 2, tzinfo=UTC))
    answer = echo.enqueue([order, Box(order)])
    drain()
    plain = {"number": 7, "at": "2030-01-02T00:00:00Z"}
    assert app.client.result(answer.id) == [plain, {"order": plain}, {"order": plain}]


@pytest.mark.parametrize("chunk", [None, 10])
def test_a_job_whose_result_cannot_be_stored_is_done_and_says_why(app, drain, caplog, chunk):
    def make(payload):
        make_result, _ = BAD_RESULTS[payload]
        return make_result()

    handler = app.handler("make", chunk=chunk)(make if chunk is None else lambda payloads: [*map(make, payloads)])
    answers = {name: handler.enqueue(name) for name in BAD_RESULTS}
    with caplog.at_level(logging.WARNING, "holdfast.worker"):
        assert drain() == {"acked": len(BAD_RESULTS)}
    details = {row.job_id: row.detail for row in app.driver.ledger(limit=100)}
    warnings = {
        record.job_id: record.reason for record in caplog.records if getattr(record, "event", "") == "result.not_stored"
    }
    for name, answer in answers.items():
        record = ended(app, answer)
        assert (record.state, record.attempts, record.result) == ("done", 1, None), (name, record)
        assert details[answer.id].startswith("result not stored: "), (name, details[answer.id])
        assert BAD_RESULTS[name][1] in details[answer.id], (name, details[answer.id])
        assert warnings[answer.id] == details[answer.id]
        assert app.client.result(answer.id) is None


@pytest.mark.parametrize("chunk", [None, 10])
def test_a_strict_handler_makes_a_dead_letter_of_a_result_that_cannot_be_stored(app, drain, chunk):
    def make(payload):
        make_result, _ = BAD_RESULTS[payload]
        return make_result()

    strict = app.handler("make", chunk=chunk, strict_result=True)
    handler = strict(make if chunk is None else lambda payloads: [*map(make, payloads)])
    answers = {name: handler.enqueue(name) for name in BAD_RESULTS}
    assert drain() == {"dead": len(BAD_RESULTS)}
    for name, answer in answers.items():
        record = ended(app, answer)
        assert (record.dead_reason, record.attempts) == ("bad result", 1)
        assert BAD_RESULTS[name][1] in record.last_error, (name, record)


def test_keys_that_become_one_text_are_a_bad_result_also_of_an_annotated_handler(app, drain):
    @app.handler("make", strict_result=True)
    def make(_payload) -> dict[int | str, str]:
        return {1: "a", "1": "b"}

    answer = make.enqueue()
    assert drain() == {"dead": 1}
    assert ended(app, answer).dead_reason == "bad result"


def test_a_handler_of_a_class_or_of_a_worker_may_be_strict(app):
    @app.handler("class", strict_result=True)
    class Make:
        def handle(self, _ctx):
            return object()

    worker = app.worker()
    worker.register("function", lambda _payload: object(), strict_result=True)
    answer = Make.enqueue()
    assert worker.process_once().status == "dead"
    assert ended(app, answer).dead_reason == "bad result"
    assert worker.catalogue.get("function").strict_result
