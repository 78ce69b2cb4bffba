"""Tools for tests.

For users who test their own jobs:

- ``Inline`` runs the jobs of an app in the test's thread, under a ``ManualClock``.
- ``holdfast.testing.pytest_plugin`` offers the same as pytest fixtures; pytest loads it by itself.

For driver authors: ``holdfast.testing.drivers`` checks a driver against the contract. ``holdfast.testing.servers``
starts real servers for the tests of this project.

The names are imported on first use, because pytest imports this package in every test run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.lazy_names import lazy_names

if TYPE_CHECKING:
    from holdfast.clock import ManualClock
    from holdfast.testing.inline import Inline, StoredJob

__all__ = ["Inline", "ManualClock", "StoredJob"]

_MODULES = {"holdfast.clock": ("ManualClock",), "holdfast.testing.inline": ("Inline", "StoredJob")}

__getattr__ = lazy_names(__name__, _MODULES)
