"""The handler of ``run``: gets rows with the values that Spark has, and may return what data code returns.

Built on the Spark driver, pickled, called in the child processes of slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.spark.execution.run_columns import InputColumns
from holdfast.spark.row_values import make_row_reader
from holdfast.worker.catalogue import Handler, make_handler
from holdfast.worker.data_results import with_data_results


def make_row_handler(type_: str, function: Callable[..., Any], columns: InputColumns, **options: Any) -> Handler:
    """Return the handler for ``fn(row)`` or ``fn(row, ctx)``; with ``chunk``, for ``fn(rows)``.

    A frame whose values JSON has needs no reader, and its child processes need not import Spark.
    """
    handler = with_data_results(make_handler(type_, function, **options))
    return replace(handler, from_json=make_row_reader(columns.names, columns.kinds))
