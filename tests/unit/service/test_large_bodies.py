"""Large JSON: it is built once, without pauses for garbage, and leaves half of the time to other requests."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import suppress
from itertools import pairwise

import msgspec
import pytest

from holdfast.clock import monotonic
from holdfast.model.request import JobRequest
from holdfast.service.http.json_body import read_body, read_large_body
from holdfast.service.problems import Problem
from holdfast.service.schemas.tasks import NewTask
from holdfast.service.tenants.store_calls import StoreCalls
from holdfast.wire.codec import ENCODED_JSON
from holdfast.wire.records import to_record

BODY = b'{"command": "c", "payload": [' + b"[[1]], " * 100_000 + b"{}]}"
MOST_TIMES = 5  # the time of one plain decoding without garbage collection; it takes 1.5 of them


def _time_of(function, *arguments) -> float:
    began = time.thread_time()
    function(*arguments)
    return time.thread_time() - began


def test_a_large_body_becomes_a_record_in_a_few_times_its_decoding():
    def make_record() -> None:
        task = read_large_body(BODY, NewTask)
        to_record(JobRequest(type=task.command, payload=task.payload), now=1, codec=ENCODED_JSON)

    gc.disable()
    try:
        plain = min(_time_of(msgspec.json.decode, BODY) for _ in range(3))
    finally:
        gc.enable()
    assert min(_time_of(make_record) for _ in range(3)) < MOST_TIMES * plain


@pytest.mark.parametrize("body", [BODY, b'{"command": "c", "payload": {"a": 1, "a": 1}}', b"[1", b"{}"])
def test_garbage_is_collected_after_a_body(body):
    with suppress(Problem):
        read_large_body(body, NewTask)
    assert gc.isenabled()


def test_a_payload_is_stored_as_if_it_was_decoded_and_encoded():
    task = read_body(b'{"payload" : {"b": [1.50, 1e2 ,"\\u00e9\\/"], "a": null}, "command": "c"}', NewTask)
    assert bytes(task.payload) == '{"b":[1.5,100.0,"é/"],"a":null}'.encode()
    assert bytes(read_body(b'{"command": "c"}', NewTask).payload) == b"null"


def test_large_bodies_take_turns_and_rest_as_long_as_they_took():
    turns: list[tuple[float, float]] = []

    def parse() -> None:
        began = monotonic()
        time.sleep(0.02)
        turns.append((began, monotonic()))

    async def run() -> None:
        calls = StoreCalls(4, seconds=60, queue_seconds=60)
        await asyncio.gather(*(calls.parse(parse) for _ in range(3)))
        calls.close()

    asyncio.run(run())
    assert len(turns) == 3
    for (began, ended), (next_began, _) in pairwise(turns):
        assert next_began - ended >= (ended - began) * 0.9
