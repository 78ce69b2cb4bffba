"""The order in which schedules are walked: a schedule comes after the schedules that it depends on."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput
from holdfast.model.suggestion import did_you_mean

if TYPE_CHECKING:
    from holdfast.cron.schedule import Schedule


def check_dependencies(schedules: Iterable[Schedule], *, known: Collection[str] = ()) -> None:
    """Check that every dependency is one of these schedules or ``known``, and that there is no cycle.

    Raises ``InvalidInput``, which names the unknown schedule or the cycle.
    """
    given = {schedule.name: schedule for schedule in schedules}
    for schedule in given.values():
        for name in schedule.depends_on:
            if name not in given and name not in known:
                got = f"{name!r}{did_you_mean(name, (*given, *known))}"
                raise InvalidInput(f"depends_on of schedule {schedule.name}", wanted="the name of a schedule", got=got)
    execution_order(given.values())


def execution_order(schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the schedules with each one after its dependencies, else in the order given.

    A dependency that is not among them is ignored. Raises ``InvalidInput`` that names the cycle, if there is one.
    """
    given = {schedule.name: schedule for schedule in schedules}
    places = {name: place for place, name in enumerate(given)}
    sorter = TopologicalSorter(
        {name: [other for other in schedule.depends_on if other in given] for name, schedule in given.items()}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = " -> ".join(reversed(error.args[1]))  # graphlib lists each one before what depends on it
        raise InvalidInput("depends_on", wanted="schedules without a cycle", got=cycle) from error
    order: list[Schedule] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=places.__getitem__)
        order += (given[name] for name in ready)
        sorter.done(*ready)
    return order
