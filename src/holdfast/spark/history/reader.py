"""Read a history: its tables as frames, its audit, its report. Runs on the Spark driver."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from holdfast.drivers.store import Store
from holdfast.spark.history import summaries
from holdfast.spark.history.audit import Scope, audit
from holdfast.spark.history.certificate import FILE_CHECKS, MAX_EVIDENCE, Certificate, Violation
from holdfast.spark.history.file_audit import check_commits, check_files
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import CommitMark, newest
from holdfast.spark.history.marks import read_mark
from holdfast.spark.history.schemas import PAYLOADS
from holdfast.spark.history.tables import newest_versions, read_parts
from holdfast.spark.report.figures import collect_figures
from holdfast.spark.report.page import page


class History:
    """A history as of its newest commit when the object is created. Later commits do not change it."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = Folder(spark, folder)
        self.head = newest(self._folder)
        self.commit = self.head.commit

    def stored(self, table: str) -> DataFrame:
        """Return a table as it is stored: ``jobs`` and ``payloads`` may have several versions of a job."""
        return read_parts(self._spark, self._folder, table, self.commit.parts_of(table))

    @property
    def leases(self) -> DataFrame:
        """Every row of the ledger."""
        return self.stored("leases")

    @property
    def jobs(self) -> DataFrame:
        """One row for each job."""
        return summaries.jobs(self.leases, self.stored("jobs"), self.stored("waiting"))

    @property
    def payloads(self) -> DataFrame:
        """The columns of a job that ``jobs`` leaves out. A sync can leave them out for some jobs."""
        return newest_versions(self.stored("payloads"), PAYLOADS)

    @property
    def health(self) -> DataFrame:
        """One row for each queue, type and minute."""
        stored, first_day = self.stored("health"), self.commit.complete_from
        return summaries.health(self.leases, self.jobs, stored, first_day=first_day)

    @property
    def failures(self) -> DataFrame:
        """Dead letters by fingerprint."""
        return self.failures_from(self.commit.complete_from)

    def failures_from(self, first_day: str) -> DataFrame:
        """Return ``failures`` for a compaction that will forget the jobs that were created before ``first_day``."""
        return summaries.failures(self.jobs, self.stored("failures"), first_day=first_day)

    def audit(self, *, kept: CommitMark | None = None, store: Store | None = None) -> Certificate:
        """Check the files of the history, and the laws on all its rows.

        ``kept`` is the ``commit`` of an earlier certificate, and ``store`` the store that was synced: with one of them,
        the audit finds that the newest commits were removed, or that a commit was replaced. If a file is missing or was
        changed, the laws are not checked.
        """
        marks = [kept, None if store is None else read_mark(store, self._folder)]
        violations = [
            *check_files(self._folder, self.commit.parts),
            *check_commits(self._folder, self.head, [mark for mark in marks if mark is not None]),
        ]
        counts = {check: sum(each.check == check for each in violations) for check in FILE_CHECKS}
        shown = [each for check in FILE_CHECKS for each in _shown(violations, check)]
        if counts["files"]:
            return Certificate(states={}, commit=self.head.mark, violation_counts=counts, violations=shown)
        rows = audit(self.leases, self.stored("jobs"), self.stored("waiting"), scope=self._scope())
        return replace(
            rows,
            commit=self.head.mark,
            violation_counts={**counts, **rows.violation_counts},
            violations=[*shown, *rows.violations],
        )

    def _scope(self) -> Scope:
        commit = self.commit
        return Scope(
            position=commit.position,
            first_position=commit.first_position,
            rows_before=commit.rows_of("leases") - (commit.position - commit.first_position),
            jobs=commit.rows_of("jobs"),
            waiting=commit.rows_of("waiting"),
            snapshot=commit.snapshot,
            since=commit.since,
            serial_arrivals=commit.serial_arrivals,
        )

    def page(self, title: str) -> tuple[str, Certificate]:
        """Return the report as an HTML page, and the certificate that it shows."""
        jobs = self.jobs.cache()
        try:
            failures = summaries.failures(jobs, self.stored("failures"), first_day=self.commit.complete_from)
            figures = collect_figures(self.leases, jobs, failures, self.audit())
        finally:
            jobs.unpersist()
        return page(figures, title=title), figures.certificate


def _shown(violations: list[Violation], check: str) -> list[Violation]:
    return [each for each in violations if each.check == check][:MAX_EVIDENCE]
