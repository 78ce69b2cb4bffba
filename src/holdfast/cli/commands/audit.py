"""``holdfast audit``: check the laws on a whole history; print a certificate, or the violations."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli import json_values
from holdfast.cli.command import Command
from holdfast.cli.output import Column
from holdfast.cli.parameters import FOLDER
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.cli.spark_access import load_spark, master_option, open_history
from holdfast.clock import monotonic

if TYPE_CHECKING:
    from holdfast.spark.history.certificate import Certificate
    from holdfast.spark.history.manifest import CommitMark


@click.command("audit", cls=Command)
@click.option(
    "--history",
    "folder",
    metavar="DIR",
    type=FOLDER,
    help="A folder of `history sync`; by default the store's own ledger.",
)
@click.option(
    "--kept",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --history: the JSON of an earlier audit, whose commit the history must still have.",
)
@click.option(
    "--with-store", is_flag=True, help="With --history: compare it with the last sync that the store remembers."
)
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: the certificate, and every violation with its facts.")
@pass_session
def audit(
    session: Session,
    *,
    folder: str | None,
    kept: Path | None,
    with_store: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Check with Spark that no law was broken.

    Of a history, also that no row and no file is missing or was changed. Exits
    0 if every check holds, 1 if a check fails or there is no ledger row.
    """
    began = monotonic()
    if folder is None and (kept is not None or with_store):
        raise CommandFailed(ExitCode.USAGE, "--kept and --with-store need --history")
    if folder is not None:
        mark = None if kept is None else _read_mark(kept)
        store = session.store() if with_store else None
        certificate = open_history(folder, master).audit(kept=mark, store=store)
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
        raise CommandFailed(ExitCode.FAILED, certificate.verdict)


def _read_mark(path: Path) -> CommitMark:
    """Return the commit of the certificate in a file."""
    from holdfast.spark.history.manifest import CommitMark  # noqa: PLC0415 - needs an extra that may not be installed

    try:
        return msgspec.convert(msgspec.json.decode(path.read_bytes())["commit"], CommitMark)
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise CommandFailed(
            ExitCode.USAGE, f"--kept: wanted the output of `holdfast audit --history DIR --json`, got {path} ({error})"
        ) from error


def _show(session: Session, certificate: Certificate, seconds: float) -> None:
    from holdfast.spark.history.certificate import CHECKS  # noqa: PLC0415 - needs an extra that may not be installed

    output, commit = session.output, certificate.commit
    output.print_line("CERTIFICATE" if certificate.holds else "NO CERTIFICATE")
    output.print_fields(
        [
            ("commit", "-" if commit is None else f"{commit.number}  {commit.hash}"),
            (
                "ledger rows",
                f"{certificate.rows:,}  positions {certificate.first_position:,} to {certificate.position:,}"
                + _describe_trimmed(certificate.trimmed),
            ),
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
            [(each.check, each.job_id or "-", _describe(each.facts)) for each in certificate.violations],
        )


def _describe_trimmed(count: int | None) -> str:
    if count == 0:
        return ""
    return f"; {'an unknown number of' if count is None else format(count, ',')} earlier rows were trimmed"


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
        "commit": None if certificate.commit is None else asdict(certificate.commit),
        "first_position": certificate.first_position,
        "position": certificate.position,
        "trimmed": certificate.trimmed,
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
