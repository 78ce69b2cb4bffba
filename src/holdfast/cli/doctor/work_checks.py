"""Checks of the work: jobs, leases, and whether workers run that handle the jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from holdfast.cli.commands.queue import COUNTED_STATES, NOT_DONE, is_paused, sum_by_queue
from holdfast.cli.doctor.check import Check, Health
from holdfast.cli.filters import find_all
from holdfast.cli.session import Session
from holdfast.clock import MINUTE
from holdfast.cron.entries import STATE_KIND
from holdfast.cron.store import ScheduleStore
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Counts, Diagnose, Settings
from holdfast.drivers.store import Store
from holdfast.model import bounds, duration
from holdfast.model.control_characters import quote
from holdfast.model.domain import DomainInfo
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.model.transition import UNREADABLE
from holdfast.observability.presence import WorkerPresence, read_presences
from holdfast.worker.stopped_domains import read_stopped_domains
from holdfast.worker.type_holds import read_breakers

OLD_READY_JOB = 5 * MINUTE  # microseconds that a job has been due
UNREAPED_LEASE = MINUTE  # microseconds since a lease expired; every worker reaps all queues every few seconds
OVERDUE_SCHEDULE = MINUTE  # microseconds since a schedule should have fired
SHOWN_NAMES = 10


def check_work(session: Session, store: Store) -> Iterator[Check]:
    """Everything about jobs and workers. The open and dead jobs are counted once; done jobs are not read."""
    has = store.capabilities.has
    counts: Sequence[QueueCounts] = ()
    if has(Feature.JOBS):
        counts = store.do(Counts(states=NOT_DONE, estimate=True))
        yield from _check_jobs(counts)
        yield from _check_unreadable(store, counts)
    queues = {row.queue for row in counts if row.ready} if has(Feature.LIMITS) else set[str]()
    paused = {queue for queue in queues if is_paused(session.output, store.do(Settings(queue=queue)))}
    if paused:
        yield Check(
            name="paused",
            health=Health.NOTE,
            text=f"paused queues with ready jobs: {_names(paused)}",
            advice="`holdfast queue resume NAME` continues",
        )
    yield from _check_breakers(store)
    yield from _check_domains(store)
    ready = [row for row in counts if row.ready and row.queue not in paused]
    yield from _check_oldest(ready)
    yield from _check_leases(store)
    if has(Feature.REGISTRY):
        workers = read_presences(store)
        yield from _check_workers(workers, ready)
        yield from _check_handled(workers, ready)
        yield from _check_schedules(session, store)


def _check_schedules(session: Session, store: Store) -> Iterator[Check]:
    """Schedules that should have fired: a running scheduler fires within seconds."""
    due = ScheduleStore(store).due(session.output.now() - OVERDUE_SCHEDULE, SHOWN_NAMES + 1)
    names = {one.key for one in due.keys if one.kind == STATE_KIND}
    if names:
        text = f"schedules that are overdue: {_names(names)}"
        advice = "start a scheduler: `holdfast work MODULE:APP`, or `holdfast cron run MODULE:APP --loop`"
        yield Check(name="schedules", health=Health.NOTE, text=text, advice=advice)


def _check_breakers(store: Store) -> Iterator[Check]:
    breakers = {f"{one.type} in {one.queue}" for one in read_breakers(store)}
    if breakers:
        text = f"circuit breakers that are open or half open: {_names(breakers)}"
        advice = "see why attempts fail; `holdfast queue resume NAME --type TYPE` closes one at once"
        yield Check(name="breakers", health=Health.NOTE, text=text, advice=advice)


def _check_domains(store: Store) -> Iterator[Check]:
    """Domains that wait for an operator: halted ones, and those whose missing offset is overdue."""
    stopped = read_stopped_domains(store)
    if stopped.halted:
        text = f"domains that a dead job has halted: {_domain_names(stopped.halted)}"
        advice = "see `holdfast domain list --halted`; then `holdfast domain retry` or `skip`"
        yield Check(name="halted", health=Health.NOTE, text=text, advice=advice)
    if stopped.overdue:
        text = f"domains whose missing offset is overdue: {_domain_names(stopped.overdue)}"
        advice = "enqueue it, or `holdfast domain resume QUEUE DOMAIN --position N` goes on without it"
        yield Check(name="gaps", health=Health.NOTE, text=text, advice=advice)


def _domain_names(domains: Sequence[DomainInfo]) -> str:
    return _names(f"{one.domain} in {one.queue}" for one in domains)


def _check_jobs(counts: Sequence[QueueCounts]) -> Iterator[Check]:
    rows = sum_by_queue(counts)
    totals = {state: sum(getattr(row, state) for row in rows) for state in COUNTED_STATES}
    text = ", ".join(f"{count} {state}" for state, count in totals.items() if count)
    yield Check(name="jobs", health=Health.OK, text=text or "none that is not done")
    if totals["dead"]:
        text = f"{totals['dead']} dead letters"
        yield Check(name="dead", health=Health.NOTE, text=text, advice="see `holdfast dead groups`")


def _check_unreadable(store: Store, counts: Sequence[QueueCounts]) -> Iterator[Check]:
    """Rows that somebody else has changed: dead letters, and open jobs that no worker can ask for."""
    if any(row.dead for row in counts):
        letters = find_all(store, JobFilter(states=(State.DEAD,), reason=UNREADABLE))
        first = next(letters, None)
        if first is not None:
            count = 1 + sum(1 for _ in letters)
            text = f"{count} dead letters have rows that cannot be read, for example {first.id}"
            advice = (
                "`holdfast dead show ID` names the columns; restore them in the database and requeue the job, or remove"
                f" it with `holdfast dead purge --reason {UNREADABLE}`"
            )
            yield Check(name="unreadable", health=Health.WRONG, text=text, advice=advice)
    lost = {
        f"{quote(row.type)} in {quote(row.queue)}"
        for row in counts
        if row.ready + row.scheduled and not (bounds.is_name(row.queue) and bounds.is_name(row.type))
    }
    if lost:
        text = f"open jobs with a type or queue that is no name: {_names(lost)}"
        advice = "no worker can reserve them: restore the names in the database, or cancel the jobs"
        yield Check(name="names", health=Health.WRONG, text=text, advice=advice)


def _check_oldest(ready: Sequence[QueueCounts]) -> Iterator[Check]:
    waiting = [(row.oldest_ready_age or 0, row) for row in ready]
    if not waiting:
        return
    age, row = max(waiting, key=lambda pair: pair[0])
    text = f"the oldest ready job, a {row.type} in {row.queue}, is due for {duration.format_rounded(age)}"
    if age < OLD_READY_JOB:
        yield Check(name="oldest", health=Health.OK, text=text)
    else:
        advice = "start more workers, or look for slow ones with `holdfast worker list`"
        yield Check(name="oldest", health=Health.NOTE, text=text, advice=advice)


def _check_leases(store: Store) -> Iterator[Check]:
    expired = store.do(Diagnose(expired_for=UNREAPED_LEASE)).expired_leases
    if expired:
        text = f"{expired} leases expired more than {duration.format_rounded(UNREAPED_LEASE)} ago"
        advice = "start a worker, or run `holdfast reap`: their jobs wait"
        yield Check(name="leases", health=Health.NOTE, text=text, advice=advice)


def _check_workers(workers: Sequence[WorkerPresence], ready: Sequence[QueueCounts]) -> Iterator[Check]:
    if not workers:
        health = Health.NOTE if ready else Health.OK
        advice = "start one with `holdfast work MODULE:APP`" if ready else ""
        yield Check(name="workers", health=health, text="none runs in this space", advice=advice)
        return
    draining = sum(worker.draining for worker in workers)
    text = f"{len(workers)} run" + (f", {draining} of them draining" if draining else "")
    yield Check(
        name="workers", health=Health.OK, text=f"{text}, and hold {sum(worker.held for worker in workers)} jobs"
    )
    versions = sorted({worker.version for worker in workers})
    if len(versions) > 1:
        text = f"workers of different versions: {', '.join(versions)}"
        advice = "finish the upgrade; `holdfast worker list` shows which are old"
        yield Check(name="versions", health=Health.NOTE, text=text, advice=advice)


def _check_handled(workers: Sequence[WorkerPresence], ready: Sequence[QueueCounts]) -> Iterator[Check]:
    """Ready jobs that no worker will reserve: nobody works their queue, or nobody there handles their type."""
    if not workers:
        return
    idle = {row.queue for row in ready if not any(worker.works(row.queue) for worker in workers)}
    if idle:
        text = f"queues with ready jobs that no worker works: {_names(idle)}"
        advice = "add them to a worker with `holdfast work MODULE:APP --queue NAME`"
        yield Check(name="queues", health=Health.NOTE, text=text, advice=advice)
    unhandled = {
        f"{row.type} in {row.queue}"
        for row in ready
        if row.queue not in idle and not any(worker.works(row.queue) and worker.handles(row.type) for worker in workers)
    }
    if unhandled:
        text = f"types with ready jobs that no worker handles: {_names(unhandled)}"
        advice = "deploy the handler, or cancel these jobs: `holdfast job list --state ready --type TYPE`"
        yield Check(name="types", health=Health.NOTE, text=text, advice=advice)


def _names(names: Iterable[str]) -> str:
    ordered = sorted(names)
    rest = len(ordered) - SHOWN_NAMES
    return ", ".join(ordered[:SHOWN_NAMES]) + (f" and {rest} more" if rest > 0 else "")
