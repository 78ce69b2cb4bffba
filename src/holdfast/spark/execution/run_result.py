"""The result of ``run``: two frames over one set of rows that executors hold, and a summary. On the Spark driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame

from holdfast.model.job import State
from holdfast.spark.compat import free_checkpoint
from holdfast.spark.execution.held_rows import hold_at_first_read
from holdfast.spark.execution.run_columns import OUTCOME, InputColumns, OutcomeColumns, split_outcomes
from holdfast.worker.attempt import BAD_RESULT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How many rows of a run are done, dead and cancelled, and which versions of the handler made the results."""

    done: int
    dead: int
    cancelled: int
    open: int  # rows without an outcome: the run was stopped, their domain is halted, or their jobs are no longer kept
    halted: int = 0  # domains that a dead row has halted
    # Results that could not be stored: dead rows with the reason ``bad result``, and if the handler has
    # ``strict_result=False``, rows that this call has done without their results.
    unstored: int = 0
    versions: Mapping[str, int]  # results of each version of the handler, over all calls with this name

    @property
    def has_mixed_versions(self) -> bool:
        """Whether the results come from different versions of the handler."""
        return len(self.versions) > 1

    def __str__(self) -> str:
        counts = {"done": self.done, "dead": self.dead, "cancelled": self.cancelled, "open": self.open}
        text = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "done")
        if self.halted:
            text = f"{text}; {self.halted:,} halted domain{'s' * (self.halted != 1)}"
        if self.unstored:
            text = f"{text}; {self.unstored:,} result{'s' * (self.unstored != 1)} not stored"
        if not self.has_mixed_versions:
            return text
        mix = ", ".join(f"{count:,} of {version}" for version, count in self.versions.items())
        return f"{text}; results of {len(self.versions)} versions of the handler: {mix}"


class _Frames(NamedTuple):
    ok: DataFrame
    dead: DataFrame


class RunResult(_Frames):
    """``ok, dead = run(...)``: the rows that are done, and those that are dead or cancelled. Also has a ``summary``.

    Executors hold the rows, once for both frames, until ``unpersist`` or until both frames, and every frame derived
    from them, are garbage-collected.
    """

    summary: RunSummary
    _rows: DataFrame | None

    def unpersist(self) -> None:
        """Free the rows now. Both frames, and every frame derived from them, can no longer be read."""
        if self._rows is not None:
            free_checkpoint(self._rows)
            self._rows = None


def hold_result(
    joined: DataFrame,
    columns: InputColumns,
    outcome: OutcomeColumns,
    *,
    version: str,
    mix: Mapping[str, int],
    halted: int,
    unstored: int,
) -> RunResult:
    """Compute the rows with their outcomes, and return frames over them.

    ``mix`` are the versions of the handler if the run has several, else it is empty. ``halted`` domains are not
    finished. ``unstored`` rows are done without their results.
    """
    rows = hold_at_first_read(joined)  # a join is estimated large
    result = RunResult(*split_outcomes(rows, columns, outcome))
    result._rows = rows  # noqa: SLF001 - a tuple has no other constructor
    result.summary = _summarise(rows, version, mix, halted, unstored)  # the first read
    return result


def _summarise(rows: DataFrame, version: str, mix: Mapping[str, int], halted: int, unstored: int) -> RunSummary:
    counts = [f"count_if({OUTCOME}.state = '{state}')" for state in (State.DONE, State.DEAD, State.CANCELLED)]
    without_outcome, bad_results = f"count_if({OUTCOME}.state IS NULL)", f"count_if({OUTCOME}.reason = '{BAD_RESULT}')"
    found = rows.selectExpr(*counts, without_outcome, bad_results).first()
    assert found is not None
    done, dead, cancelled, open_, bad = found
    return RunSummary(
        done=done,
        dead=dead,
        cancelled=cancelled,
        open=open_,
        halted=halted,
        unstored=unstored + bad,
        versions=mix or {version: done},
    )
