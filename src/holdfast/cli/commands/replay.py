"""``holdfast replay``: enqueue ended jobs of a history or a store again, selected by a condition in SQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import json_values
from holdfast.cli.command import Command
from holdfast.cli.output import Column
from holdfast.cli.parameters import FOLDER_OR_URL, RATE
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.cli.spark_access import load_spark, master_option, open_history
from holdfast.connect import is_store

if TYPE_CHECKING:
    from holdfast.spark.replay.replay import Replay, ReplayResult

MAX_PREVIEW_GROUPS = 12


@click.command("replay", cls=Command)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="DIR|URL",
    type=FOLDER_OR_URL,
    help="A folder of `history sync`, or a store.",
)
@click.option("--where", required=True, metavar="SQL", help="A condition over the columns of the jobs.")
@click.option(
    "--to", "target", metavar="URL", help="The store that gets the jobs; by default the one of --from or --url."
)
@click.option("--queue", metavar="NAME", help="The queue of the new jobs; by default the queue of the old job.")
@click.option("--rate", type=RATE, metavar="RATE", help="No faster than this: 500/s, 600/m; 10 is 10/s.")
@click.option(
    "--replay-id", metavar="NAME", help="A name for a separate replay; by default derived from the options above."
)
@click.option("--dry-run", is_flag=True, help="Only show and count what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: the selection and the result.")
@pass_session
def replay(
    session: Session,
    *,
    source: str,
    where: str,
    target: str | None,
    queue: str | None,
    rate: float | None,
    replay_id: str | None,
    dry_run: bool,
    yes: bool,
    master: str | None,
    as_json: bool,
) -> None:
    """Enqueue ended jobs again as new jobs, each once.

    Shows the selection and asks for confirmation. If a replay was interrupted, the same command continues it; after the
    replay has finished, the same command does nothing.
    """
    if not is_store(source):
        open_history(source, master)
    if target is not None or is_store(source):
        session.use_url(target or source)
    store = session.store(create=target is not None)
    spark = load_spark()
    from holdfast.spark.replay.replay import Replay  # noqa: PLC0415 - needs an extra that may not be installed

    with Replay(
        source,
        where,
        to=store,
        space=session.space,
        queue=queue,
        replay_id=replay_id,
        spark=spark.session(master),
        settings=session.settings,
    ) as plan:
        if not as_json:
            _print_preview(session, plan)
        if dry_run or not plan.preview.chosen:
            result = None
        else:
            _confirm(session, plan, queue, yes=yes)
            result = _run(session, plan, rate, shown=not as_json)
        if as_json:
            session.output.print_json(_to_json(plan, result))
        elif result is not None:
            _print_result(session, result)
        elif plan.preview.chosen:
            session.output.print_line(f"would enqueue {_jobs(_replayable(plan))}")


def _replayable(plan: Replay) -> int:
    return max(plan.preview.chosen - plan.preview.without_payload, 0)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _print_preview(session: Session, plan: Replay) -> None:
    output, preview = session.output, plan.preview
    if not preview.chosen:
        output.print_note("no ended job matches")
        return
    output.print_table(
        [
            Column(title="QUEUE"),
            Column(title="TYPE", truncate=True),
            Column(title="STATE"),
            Column(title="JOBS", align_right=True),
        ],
        [(group.queue, group.type, group.state, group.count) for group in preview.groups[:MAX_PREVIEW_GROUPS]],
    )
    if len(preview.groups) > MAX_PREVIEW_GROUPS:
        output.print_line(f"and {len(preview.groups) - MAX_PREVIEW_GROUPS} smaller groups")
    output.print_line()
    output.print_table(
        [Column(title="EXAMPLE"), Column(title="TYPE", truncate=True), Column(title="PAYLOAD", truncate=True)],
        [(each.job_id, each.type, "none" if each.payload is None else each.payload) for each in preview.examples],
    )
    output.print_line()
    if preview.without_payload:
        output.print_note(
            f"{_jobs(preview.without_payload)} of {preview.chosen:,} have no payload in this history and are skipped"
        )
    progress = plan.progress
    if progress.finished_at is None and progress.after:
        output.print_note(
            f"replay {plan.id} continues: {_jobs(progress.added + progress.existed)} were enqueued before"
        )


def _confirm(session: Session, plan: Replay, queue: str | None, *, yes: bool) -> None:
    if yes or plan.progress.finished_at is not None:
        return
    where = f"into {queue}" if queue else "into their queues"
    if not session.output.confirm(f"enqueue {_jobs(_replayable(plan))} again, {where}?"):
        raise CommandFailed(ExitCode.FAILED, "not confirmed, nothing was changed (--yes skips the question)")


def _run(session: Session, plan: Replay, rate: float | None, *, shown: bool) -> ReplayResult:
    with session.output.progress_bar("replay", _replayable(plan), shown=shown) as update:
        try:
            return plan.run(rate=rate, on_progress=update)
        except KeyboardInterrupt:
            raise CommandFailed(ExitCode.INTERRUPTED, "interrupted: the same command continues from here") from None


def _print_result(session: Session, result: ReplayResult) -> None:
    if result.before:
        session.output.print_line(
            f"replay {result.replay_id} was finished at {json_values.instant(result.finished_at)} "
            f"with {_jobs(result.added)}; nothing was done (use another --replay-id to enqueue the jobs once more)"
        )
        return
    session.output.print_line(f"{_jobs(result.added)} enqueued by replay {result.replay_id}")
    if result.refused:
        session.output.print_note(
            f"{_jobs(result.refused)} left out: not signed validly, or a large payload cannot be read"
        )


def _to_json(plan: Replay, result: ReplayResult | None) -> dict[str, Any]:
    return {
        "replay_id": plan.id,
        "chosen": plan.preview.chosen,
        "without_payload": plan.preview.without_payload,
        "added": 0 if result is None else result.added,
        "existed": 0 if result is None else result.existed,
        "refused": 0 if result is None else result.refused,
        "finished_at": None if result is None else json_values.instant(result.finished_at),
        "before": result is not None and result.before,
        "groups": [asdict(group) for group in plan.preview.groups],
        "examples": [asdict(example) for example in plan.preview.examples],
    }
