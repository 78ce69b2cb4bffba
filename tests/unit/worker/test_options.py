"""The options of a worker, as an object and as keyword arguments."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import get_type_hints

import pytest

from holdfast.app import Holdfast
from holdfast.errors import InvalidInput
from holdfast.worker.options import WorkerKeywords, WorkerOptions


def test_the_keywords_of_app_worker_are_the_fields_of_the_options():
    assert get_type_hints(WorkerKeywords) == get_type_hints(WorkerOptions)
    assert list(WorkerKeywords.__annotations__) == [field.name for field in fields(WorkerOptions)]


def test_a_worker_takes_options_or_keywords_or_both():
    app = Holdfast("memory://")
    app.handler("t", queue="mail")(lambda payload: payload)
    lease = timedelta(seconds=3)
    expected = WorkerOptions(queues=("mail",), processes=2, concurrency=4, lease=lease)
    assert app.worker(processes=2, concurrency=4, lease=lease).options == expected
    assert app.worker(WorkerOptions(processes=2, concurrency=4, lease=lease)).options == expected
    assert app.worker(WorkerOptions(processes=7, concurrency=4, lease=lease), processes=2).options == expected
    assert app.worker(queues=("other",)).queues == ["other"]


@pytest.mark.parametrize(
    "keywords",
    [
        {"processes": 0},
        {"concurrency": 0},
        {"queues": ()},
        {"queues": "mail"},
        {"retry": 3},
        {"lease": timedelta(0)},
        {"max_jobs": 0},
        {"keep_ended": timedelta(hours=1)},
        {"until_drained": "no"},
        {"idempotent": "no"},
        {"cron": 0},
        {"options": 5},
        {"observers": [5]},
    ],
)
def test_values_out_of_range_are_refused(keywords):
    with pytest.raises(InvalidInput, match=next(iter(keywords))):
        Holdfast("memory://").worker(**keywords)


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match="threads"):
        Holdfast("memory://").worker(threads=2)
