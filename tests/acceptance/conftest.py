"""Every store that exists, with an empty space for each case.

``h`` calls the store under a clock that only the case moves. An ``app`` lives in the time of the store itself: where
such a case needs a lease that has ended, it reserves for a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import Holdfast
from holdfast.testing.drivers.harness import Harness
from tests.harnesses import STORES, open_harness


@pytest.fixture(scope="module", params=STORES)
def harness(request) -> Iterator[Harness]:
    with open_harness(request.param, request) as harness:
        yield harness


@pytest.fixture
def h(harness) -> Iterator[Harness]:
    with harness.empty_space():
        yield harness


@pytest.fixture
def app(h) -> Holdfast:
    return Holdfast(driver=h.store)
