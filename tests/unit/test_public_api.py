"""``import holdfast``: few names, no extras, no concrete driver."""

from __future__ import annotations

import subprocess
import sys

import holdfast


def test_the_names_are_few_sorted_and_there():
    assert holdfast.__all__ == sorted(holdfast.__all__)
    assert len(holdfast.__all__) <= 25
    for name in holdfast.__all__:
        assert getattr(holdfast, name).__doc__


def test_importing_it_brings_no_driver_and_no_extra():
    look = "import sys, holdfast; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert {"holdfast.client", "holdfast.connect", "msgspec"} <= set(found)
    unwanted = {"sqlite3", "asyncio", "rich", "pyspark", "numpy", "pandas", "pickle"}
    assert not unwanted & set(found)
    assert not [name for name in found if name.startswith(("holdfast.drivers.memory", "holdfast.drivers.sqlite"))]
