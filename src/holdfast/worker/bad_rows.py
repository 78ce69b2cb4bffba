"""Rows of a DataFrame that cannot be payloads: each is a job that becomes a dead letter when a worker takes it.

So such a row is in the store like every other row of its run: with its key, its domain and the reason. Imports no
Spark: child processes need none.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from holdfast.errors import PayloadError
from holdfast.worker.catalogue import Handler, make_handler

TYPE = "spark.bad_row"


class BadRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payload of such a job."""

    row: str  # the names and values of its key
    field: str
    wanted: str
    got: str
    sha256: str = ""  # of the payload, if there is one: two different rows have different jobs


def make_bad_row_handler() -> Handler:
    """Return the handler of these jobs, which is never called: its payload is always refused."""
    return replace(make_handler(TYPE, _never_called, strict_result=True), from_json=_refuse)


def _refuse(payload: object) -> object:
    bad = msgspec.convert(payload, BadRow)
    raise PayloadError(f"row with {bad.row}: {bad.field}", wanted=bad.wanted, got=bad.got)


def _never_called(_payload: object) -> None:
    raise AssertionError
