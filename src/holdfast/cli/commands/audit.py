"""``holdfast audit``: check the laws on a whole history; print a certificate, or the violations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import json_values
from holdfast.cli.command import Command
from holdfast.cli.output import Column
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.cli.spark_access import load_spark, master_option, open_history
from holdfast.clock import monotonic

if TYPE_CHECKING:
    from holdfast.spark.history.audit import Certificate


@click.command("audit", cls=Command)
@click.option(
    "--history", "folder", metavar="DIR", help="A folder of `history sync`; by default the store's own ledger."
)
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: the certificate, and every violation with its facts.")
@pass_session
def audit(session: Session, *, folder: str | None, master: str | None, as_json: bool) -> None:
    """Check with Spark that no law was broken.

    Exits 0 if every check holds, 1 if a check fails.
    """
    began = monotonic()
    if folder is not None:
        certificate = open_history(folder, master).audit()
    else:
        store = session.store()
        spark = load_spark()
        from holdfast.spark.history.store_audit import audit_store  # noqa: PLC0415 - needs an extra that may not be installed

        certificate = audit_store(store, spark=spark.session(master))
    if as_json:
        session.output.print_json(_document(certificate))
    else:
        _show(session, certificate, monotonic() - began)
    if not certificate.holds:
        raise CommandFailed(ExitCode.FAILED, f"{sum(certificate.violation_counts.values())} violations")


def _show(session: Session, certificate: Certificate, seconds: float) -> None:
    from holdfast.spark.history.audit import CHECKS  # noqa: PLC0415 - needs an extra that may not be installed

    output = session.output
    output.print_line("CERTIFICATE" if certificate.holds else "NO CERTIFICATE")
    output.print_fields(
        [
            ("ledger rows", f"{certificate.rows:,}"),
            ("leases", f"{certificate.leases:,}"),
            ("jobs", f"{certificate.jobs:,}  " + ", ".join(f"{n:,} {name}" for name, n in certificate.states.items())),
            ("domains", f"{certificate.domains:,}"),
            ("keys", f"{certificate.keys:,}"),
            ("from", json_values.instant(certificate.first)),
            ("to", json_values.instant(certificate.last)),
            ("took", f"{seconds:.1f} s"),
        ]
    )
    output.print_line()
    output.print_table(
        [Column(title="FOUND", align_right=True), Column(title="CHECK"), Column(title="WHAT MUST HOLD", wrap=True)],
        [(count or "-", check, CHECKS[check]) for check, count in certificate.violation_counts.items()],
    )
    if certificate.violations:
        output.print_line()
        output.print_table(
            [Column(title="VIOLATION"), Column(title="JOB"), Column(title="EVIDENCE", wrap=True)],
            [(each.check, each.job_id, _describe(each.facts)) for each in certificate.violations],
        )


def _describe(facts: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in _to_json(facts).items())


def _to_json(facts: Any) -> dict[str, Any]:
    """The facts with instants as ISO 8601; an instant is recognised by its name."""
    return {
        name: json_values.instant(value) if name.endswith(("_at", "_until")) else value for name, value in facts.items()
    }


def _document(certificate: Certificate) -> dict[str, Any]:
    return {
        "holds": certificate.holds,
        "rows": certificate.rows,
        "leases": certificate.leases,
        "jobs": certificate.jobs,
        "states": dict(certificate.states),
        "domains": certificate.domains,
        "keys": certificate.keys,
        "first": json_values.instant(certificate.first),
        "last": json_values.instant(certificate.last),
        "found": dict(certificate.violation_counts),
        "violations": [
            {"check": each.check, "job_id": each.job_id, "facts": _to_json(each.facts)}
            for each in certificate.violations
        ],
    }
