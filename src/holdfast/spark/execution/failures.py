"""The failure of a Spark task as one error of Holdfast, with the reason first. Runs on the Spark driver."""

from __future__ import annotations

import re

from pyspark.errors import PySparkException, PythonException

from holdfast.errors import SparkTaskFailed

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+")


def to_failure(error: BaseException) -> BaseException:
    """Return ``SparkTaskFailed`` for an exception in the Python of a Spark task; every other error unchanged."""
    if not isinstance(error, PythonException):
        return error
    reason = _reason(error)
    missing = _MISSING_MODULE.search(reason)
    if missing is not None:
        reason += (
            f": executors cannot import {missing[1]}; install it there, or ship it with the setting "
            "spark.submit.pyFiles or spark.archives"
        )
    failure = SparkTaskFailed(reason)
    failure.__cause__ = error
    return failure


def _reason(error: PySparkException) -> str:
    """Return the class and the message of the exception: the lines after the last frame of the traceback."""
    lines = [line for line in str(error).splitlines() if line.strip() and not _SQL_STATE.fullmatch(line)]
    last_frame = max((number for number, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return " ".join(line.strip() for line in lines[last_frame + 1 :]) or "a Spark task failed"
