"""The atomic step: the jobs of a fire and the next fire are stored together, or not at all.

So of several schedulers one fires, and a scheduler that is killed has either fired or has changed nothing. A store
without ``Feature.WRITES`` gets the jobs first, and then the entries: a scheduler that is killed between the two
leaves the fire due, and the next scheduler finds its job by id and key, as long as the store keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from holdfast.cron.entries import ScheduleState, Stored, changes_of
from holdfast.cron.fire import FireJob, adapt_all
from holdfast.cron.plan import Plan
from holdfast.cron.schedule import Schedule
from holdfast.cron.store import ScheduleStore
from holdfast.drivers.capabilities import Feature
from holdfast.errors import StoreError, WriteRefused
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change

if TYPE_CHECKING:
    from holdfast.app import Holdfast

MAX_GROUP_STEPS = 200  # that are stored in one transaction
MAX_GROUP_JOBS = 1_000  # about

OnFailed = Callable[[str, Exception], None]  # the name of a schedule, and why it could not be fired


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one schedule does now."""

    schedule: Schedule
    before: Stored
    after: ScheduleState
    plan: Plan
    jobs: tuple[FireJob, ...] = ()
    blocked: str = ""  # why its fires do not happen

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.schedule.name

    def changes(self) -> list[Change]:
        """Return the changes of the registry."""
        return changes_of(self.before, Stored(key=self.name, value=self.after))


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A step that was stored, and the answers for its jobs."""

    step: Step
    answers: list[Enqueued] = field(default_factory=list)


class Firing:
    """Stores steps."""

    def __init__(self, app: Holdfast, store: ScheduleStore, on_failed: OnFailed) -> None:
        self._app = app
        self._store = store
        self._on_failed = on_failed

    def commit(self, steps: Sequence[Step]) -> list[Committed]:
        """Store steps, in groups that are atomic; return those that were stored.

        The others stay due, and are planned again: another scheduler has changed one of the schedules of their group. A
        schedule that cannot be enqueued delays no other. Raises ``StoreError``.
        """
        return [done for group in _groups(steps) for done in self._commit_group(group)]

    def _commit_group(self, steps: Sequence[Step]) -> list[Committed]:
        try:
            return self._store_group(steps)
        except WriteRefused:
            return []
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - of one request, or of an enqueue middleware
            if len(steps) > 1:
                return [done for step in steps for done in self._commit_group([step])]
            self._on_failed(steps[0].name, error)
            return []

    def _store_group(self, steps: Sequence[Step]) -> list[Committed]:
        jobs = [job for step in steps for job in step.jobs]
        changes = [change for step in steps for change in step.changes()]
        if jobs and self._app.driver.capabilities.has(Feature.WRITES):
            enqueued = enqueue_fires(self._app, jobs, changes)
        else:
            enqueued = enqueue_fires(self._app, jobs) if jobs else []
            if not self._store.write(changes):
                return []
        answers = iter(enqueued)
        return [Committed(step=step, answers=[next(answers) for _ in step.jobs]) for step in steps]


def enqueue_fires(app: Holdfast, jobs: Sequence[FireJob], writes: Sequence[Change] = ()) -> list[Enqueued]:
    """Store the jobs of fires, and these writes in the same transaction; return the answers."""
    return app.client.enqueue_with_writes([job.request for job in jobs], writes, adapt=partial(adapt_all, jobs))


def _groups(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps in order, in groups of a bounded size."""
    groups: list[list[Step]] = []
    jobs = 0
    for step in steps:
        if not groups or len(groups[-1]) >= MAX_GROUP_STEPS or jobs + len(step.jobs) > MAX_GROUP_JOBS:
            groups.append([])
            jobs = 0
        groups[-1].append(step)
        jobs += len(step.jobs)
    return groups
