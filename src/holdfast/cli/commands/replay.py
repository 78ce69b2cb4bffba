"""``holdfast replay``: ended jobs again, out of a history or a store, chosen by a condition in SQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import json_values
from holdfast.cli.optional_packages import history_at, master_option, spark_engine
from holdfast.cli.output import Column
from holdfast.cli.parameters import RATE
from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.connect import is_store

if TYPE_CHECKING:
    from holdfast.spark.replay.replay import Replay, ReplayResult

SHOWN = 12  # groups


@click.command("replay", cls=Command)
@click.option("--from", "source", required=True, metavar="DIR|URL", help="A history of `history sync`, or a store.")
@click.option("--where", required=True, metavar="SQL", help="A condition over the columns of its jobs.")
@click.option(
    "--to", "target", metavar="URL", help="The store that gets the jobs; by default the one of --from or --url."
)
@click.option("--queue", metavar="NAME", help="Where they go; by default each to the queue that it was in.")
@click.option("--rate", type=RATE, metavar="RATE", help="No faster than this: 500/s, 600/m; 10 is 10/s.")
@click.option("--replay-id", metavar="NAME", help="Another set of jobs on purpose; by default made of the above.")
@click.option("--dry-run", is_flag=True, help="Only show and count what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@master_option
@click.option("--json", "as_json", is_flag=True, help="JSON: what was chosen and what was done.")
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
    """Enqueue ended jobs again as new ones, each once.

    Shows what was chosen and asks first. A replay that was interrupted goes on where it ended when the same command is
    run again; one that is finished does nothing more.
    """
    if not is_store(source):
        history_at(source, master)
    if target is not None or is_store(source):
        session.given["url"] = target or source
    store = session.store(create=target is not None)
    engine = spark_engine()
    from holdfast.spark.replay.replay import Replay  # noqa: PLC0415 - an extra that may not be there

    with Replay(
        source,
        where,
        to=store,
        space=session.settings.space,
        queue=queue,
        replay_id=replay_id,
        spark=engine.session(master),
    ) as planned:
        if not as_json:
            _show(session, planned)
        if dry_run or not planned.preview.chosen:
            done = None
        else:
            _ask(session, planned, queue, yes=yes)
            done = _run(session, planned, rate, shown=not as_json)
        if as_json:
            session.screen.document(_document(planned, done))
        elif done is not None:
            _tell(session, done)
        elif planned.preview.chosen:
            session.screen.line(f"would enqueue {_jobs(_left(planned))}")


def _left(planned: Replay) -> int:
    return max(planned.preview.chosen - planned.preview.without_payload, 0)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _show(session: Session, planned: Replay) -> None:
    screen, preview = session.screen, planned.preview
    if not preview.chosen:
        screen.note("no ended job fits")
        return
    screen.table(
        [
            Column(title="QUEUE"),
            Column(title="TYPE", cut=True),
            Column(title="STATE"),
            Column(title="JOBS", right=True),
        ],
        [(group.queue, group.type, group.state, group.count) for group in preview.groups[:SHOWN]],
    )
    if len(preview.groups) > SHOWN:
        screen.line(f"and {len(preview.groups) - SHOWN} smaller groups")
    screen.line()
    screen.table(
        [Column(title="FOR EXAMPLE"), Column(title="TYPE", cut=True), Column(title="PAYLOAD", cut=True)],
        [(each.job_id, each.type, "not kept" if each.payload is None else each.payload) for each in preview.examples],
    )
    screen.line()
    if preview.without_payload:
        screen.note(f"{_jobs(preview.without_payload)} of {preview.chosen:,} have no payload in this history: left out")
    progress = planned.progress
    if progress.finished_at is None and progress.after:
        screen.note(f"replay {planned.id} goes on: {_jobs(progress.added + progress.existed)} were enqueued before")


def _ask(session: Session, planned: Replay, queue: str | None, *, yes: bool) -> None:
    if yes or planned.progress.finished_at is not None:
        return
    where = f"into {queue}" if queue else "into their queues"
    if not session.screen.confirmed(f"enqueue {_jobs(_left(planned))} again, {where}?"):
        raise Stop(Code.WRONG, "not confirmed, nothing was changed (--yes does not ask)")


def _run(session: Session, planned: Replay, rate: float | None, *, shown: bool) -> ReplayResult:
    with session.screen.bar("replay", _left(planned), shown=shown) as step:
        try:
            return planned.run(rate=rate, on_progress=step)
        except KeyboardInterrupt:
            raise Stop(Code.INTERRUPTED, "interrupted: the same command goes on from here") from None


def _tell(session: Session, done: ReplayResult) -> None:
    if done.before:
        session.screen.line(
            f"replay {done.replay_id} was finished at {json_values.instant(done.finished_at)} "
            f"with {_jobs(done.added)}; "
            "nothing was done (another --replay-id makes another set)"
        )
        return
    session.screen.line(f"{_jobs(done.added)} enqueued by replay {done.replay_id}")


def _document(planned: Replay, done: ReplayResult | None) -> dict[str, Any]:
    return {
        "replay_id": planned.id,
        "chosen": planned.preview.chosen,
        "without_payload": planned.preview.without_payload,
        "added": 0 if done is None else done.added,
        "existed": 0 if done is None else done.existed,
        "finished_at": None if done is None else json_values.instant(done.finished_at),
        "before": done is not None and done.before,
        "groups": [asdict(group) for group in planned.preview.groups],
        "examples": [asdict(example) for example in planned.preview.examples],
    }
