"""The handler of ``run``: gets rows with the values that Spark has, and may return what data code returns.

Built on the Spark driver, pickled, called in the child processes of slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.spark.execution.run_columns import InputColumns
from holdfast.spark.row_values import make_row_reader
from holdfast.task import Task
from holdfast.worker.catalogue import Handler, make_handler
from holdfast.worker.data_results import with_data_results
from holdfast.worker.signature import NO_PAYLOAD

# What a handler of an app keeps in a run, unless ``run`` says otherwise.
KEPT_OPTIONS = (
    "timeout",
    "cpu",
    "retry",
    "chunk",
    "strict_result",
    "idempotent",
    "idempotency_ttl",
    "single_instance",
    "capture_output",
    "breaker",
)


def make_row_handler(
    type_: str, function: Callable[..., Any], columns: InputColumns, *, limited_queue: str | None = None, **options: Any
) -> Handler:
    """Return the handler for ``fn(row)`` or ``fn(row, ctx)``; with ``chunk``, for ``fn(rows)``.

    A handler of an app keeps its own options where these are None, and proposes its limits for ``limited_queue``. A
    frame whose values JSON has needs no reader, and its child processes need not import Spark.
    """
    if isinstance(function, Task):
        if function.limit_key is not None:
            wanted = "one without limit_key: rows of a run have no keys, and rate and max_inflight limit the run"
            raise InvalidInput("handler", wanted=wanted, got=function.handler.type)
        options = _options_of(function.handler, limited_queue) | {
            name: value for name, value in options.items() if value is not None
        }
        function = function.function
    if options.get("strict_result") is None:
        options["strict_result"] = True  # the result is the product of a run
    handler = with_data_results(make_handler(type_, function, **options))
    if handler.payload_type is NO_PAYLOAD:
        raise InvalidInput("handler", wanted="fn(row) or fn(row, ctx)", got="a function without parameters")
    return replace(handler, from_json=make_row_reader(columns.names, columns.kinds))


def _options_of(handler: Handler, limited_queue: str | None) -> dict[str, Any]:
    if handler.single_instance is True:
        raise InvalidInput(
            "handler",
            wanted="one without single_instance=True: max_inflight=1 of run is the same, and rows need not try again",
            got=handler.type,
        )
    options: dict[str, Any] = {name: getattr(handler, name) for name in KEPT_OPTIONS}
    if handler.limits is not None and limited_queue is not None:
        options["limits"] = replace(handler.limits, queue=limited_queue, type=None)
    return options
