"""``holdfast audit``: the laws, proven on a whole history, with a certificate or the evidence against it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import json_values
from holdfast.cli.optional_packages import history_at, master_option, spark_engine
from holdfast.cli.output import Column
from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.clock import monotonic

if TYPE_CHECKING:
    from holdfast.spark.history.audit import Certificate


@click.command("audit", cls=Command)
@click.option("--history", "folder", metavar="DIR", help="Of `history sync`; by default what the store still holds.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: the certificate, violations with their facts.")
@pass_session
def audit(session: Session, *, folder: str | None, master: str | None, as_json: bool) -> None:
    """Prove on Spark that no law was broken, or show where.

    Exits 0 if every check holds and 1 if one does not.
    """
    began = monotonic()
    if folder is not None:
        certificate = history_at(folder, master).audit()
    else:
        store = session.store()
        engine = spark_engine()
        from holdfast.spark.history.store_audit import audit_store  # noqa: PLC0415 - an extra that may not be there

        certificate = audit_store(store, spark=engine.session(master))
    if as_json:
        session.screen.document(_document(certificate))
    else:
        _show(session, certificate, monotonic() - began)
    if not certificate.holds:
        raise Stop(Code.WRONG, f"{sum(certificate.violation_counts.values())} violations")


def _show(session: Session, certificate: Certificate, seconds: float) -> None:
    from holdfast.spark.history.audit import CHECKS  # noqa: PLC0415 - an extra that may not be there

    screen = session.screen
    screen.line("CERTIFICATE" if certificate.holds else "NO CERTIFICATE")
    screen.fields(
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
    screen.line()
    screen.table(
        [Column(title="FOUND", right=True), Column(title="CHECK"), Column(title="WHAT MUST HOLD", wrap=True)],
        [(count or "-", check, CHECKS[check]) for check, count in certificate.violation_counts.items()],
    )
    if certificate.violations:
        screen.line()
        screen.table(
            [Column(title="VIOLATION"), Column(title="JOB"), Column(title="EVIDENCE", wrap=True)],
            [(each.check, each.job_id, _facts(each.facts)) for each in certificate.violations],
        )


def _facts(facts: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in _plain(facts).items())


def _plain(facts: Any) -> dict[str, Any]:
    """Instants as ISO 8601, by the names that all instants have."""
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
            {"check": each.check, "job_id": each.job_id, "facts": _plain(each.facts)} for each in certificate.violations
        ],
    }
