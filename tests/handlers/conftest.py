"""An app with a store in memory, whose jobs run in the thread of the test; and one for a real worker."""

from __future__ import annotations

import pytest

from holdfast import connect
from holdfast.app import Holdfast
from holdfast.clock import ManualClock
from holdfast.settings import Settings
from holdfast.testing.inline import Inline


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def app(clock):
    """Without a settings file: everything is denied that a test does not allow."""
    app = Holdfast(driver=connect("memory://", clock=clock), clock=clock)
    app.use_settings(Settings())
    yield app
    app.close()


@pytest.fixture
def inline(app, clock):
    return Inline(app, clock)


@pytest.fixture
def run(app, inline):
    """Enqueue a payload, run it once, and return the status and the record."""

    def run_once(task, payload):
        answer = task.enqueue(payload)
        [status] = inline.drain()
        return status, app.client.get(answer.id)

    return run_once
