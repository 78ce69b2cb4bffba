"""Conversions between rows of this driver and values, built from the columns of a job."""

from __future__ import annotations

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres.columns import STORED_COLUMNS
from holdfast.drivers.statements import ENDED_ONLY
from holdfast.drivers.unreadable import make_job_reader
from holdfast.model.columns import names_of
from holdfast.model.job import State
from holdfast.model.lease import Reservation, make_reservation

STORED_ID = 5  # the place of the job's id in a row of ``reserve``
NO_VALUE = "?"  # no id or token is this
POSITION_COLUMNS = 6  # of read_ledger, after the ledger row: its position and the values to check the cursor against

_read_leased_job = make_job_reader(
    ("_", "_", "_", "_", "_", *names_of(STORED_COLUMNS)),
    constants={"state": State.INFLIGHT, **dict.fromkeys(ENDED_ONLY)},
)


def read_reservation(row: Row) -> Reservation:
    """Return the leased job in a row of ``reserve``: token, fence, expires_at, checkpoint, isolated, and the job.

    Raises ``UnreadableJob``.
    """
    return make_reservation(_read_leased_job(row), row[0], row[1], row[2], row[3], isolated=row[4])


def make_searchable(text: str) -> str:
    """Return an id or a token in a form that PostgreSQL accepts as a parameter.

    Stored ids and tokens are ASCII without NUL. Any other text is replaced by one that is never found: PostgreSQL
    refuses NUL and halves of surrogate pairs.
    """
    return text if text.isascii() and "\0" not in text else NO_VALUE


def make_all_searchable(texts: list[str]) -> list[str]:
    """Return the texts as ``make_searchable`` does; nearly always none is replaced, and one test is enough."""
    together = "".join(texts)
    return texts if together.isascii() and "\0" not in together else [make_searchable(text) for text in texts]
