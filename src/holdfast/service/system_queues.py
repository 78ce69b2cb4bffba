"""Queues of the system: only an operator sees or changes what is in them, and nobody makes or claims it over HTTP.

Their jobs are made from those of all producers of a space. A callback has the result of a task, and a forged one would
get the signature of the service.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.drivers.answers import Diagnosis, Inspection, LedgerTuples, Page, QueueCounts, Reaped
from holdfast.errors import InvalidInput
from holdfast.model.domain import DomainInfo
from holdfast.model.job import JobRecord
from holdfast.model.ledger import LedgerRow
from holdfast.service.auth.principal import Principal
from holdfast.service.problems import Code, Problem

PREFIX = "holdfast."
_LEDGER_COLUMNS = LedgerRow.__struct_fields__
_QUEUE, _DETAIL, _ERROR = (_LEDGER_COLUMNS.index(name) for name in ("queue", "detail", "error"))


def is_system(queue: str) -> bool:
    """Whether a queue belongs to the service."""
    return queue.startswith(PREFIX)


def check_queue(queue: str) -> str:
    """Return the queue in which a request makes or claims tasks, or is told of them. Raises ``InvalidInput``."""
    if is_system(queue):
        raise InvalidInput("queue", wanted="another queue: this one belongs to the service", got=queue)
    return queue


def check_visible(principal: Principal, queue: str) -> None:
    """Raise ``Problem`` if a request names a queue that its caller may not see."""
    if not principal.is_admin and is_system(queue):
        raise Problem(Code.FORBIDDEN, f"the queue {queue} belongs to the service")


def hide(principal: Principal, found: Inspection | None) -> Inspection | None:
    """Return a task that was found; None if the caller may not see it."""
    return None if found is not None and not principal.is_admin and is_system(found.job.queue) else found


def hide_in_answer(answer: Any) -> Any:
    """Return the answer of a driver to a caller who is no operator.

    Jobs, counts and domains are left out. Rows of the ledger stay, because readers count them, without their texts.
    """
    match answer:
        case Diagnosis():  # it tells about other spaces, too
            return replace(answer, table_sizes={}, table_health=None, ledger_delay=None)
        case Reaped(ended=ended):
            return replace(answer, ended=[_mask(row) for row in ended])
        case Page(items=items):
            kept = [_mask(item) if isinstance(item, LedgerRow) else item for item in items if not _is_hidden(item)]
            return dataclasses.replace(answer, items=kept)
        case [QueueCounts(), *_]:
            return [item for item in answer if not _is_hidden(item)]
        case dict():
            return {key: value for key, value in answer.items() if not _is_hidden(value)}
        case LedgerTuples(tuples=rows, cursor=cursor):
            return LedgerTuples([_mask_columns(row) for row in rows], cursor)
        case _:
            return answer


def _is_hidden(item: object) -> bool:
    match item:
        case JobRecord(queue=queue) | Inspection(job=JobRecord(queue=queue)):
            return is_system(queue)
        case QueueCounts(queue=queue) | DomainInfo(queue=queue):
            return is_system(queue)
        case _:
            return False


def _mask(row: LedgerRow) -> LedgerRow:
    return replace(row, detail="", error="") if is_system(row.queue) else row


def _mask_columns(row: Sequence[Any]) -> Sequence[object]:
    if not is_system(row[_QUEUE]):
        return row
    masked = list(row)
    masked[_DETAIL] = masked[_ERROR] = ""
    return masked


def hidden_ids(found: Mapping[str, Inspection]) -> set[str]:
    """Return the ids of jobs that only an operator may change."""
    return {job_id for job_id, one in found.items() if is_system(one.job.queue)}
