"""The order of schedules: after their dependencies, else as given."""

import pytest

from holdfast.cron.dependencies import check_dependencies, execution_order
from holdfast.cron.schedule import Schedule
from holdfast.errors import InvalidInput


def schedule(name: str, *depends_on: str) -> Schedule:
    return Schedule(name=name, expression="@daily", type="t", depends_on=depends_on)


def names(*schedules: Schedule) -> list[str]:
    return [each.name for each in execution_order(schedules)]


def test_each_schedule_comes_after_its_dependencies():
    given = (
        schedule("send", "report"),
        schedule("report", "load", "clean"),
        schedule("clean"),
        schedule("load", "clean"),
    )
    assert names(*given) == ["clean", "load", "report", "send"]


def test_schedules_without_dependencies_keep_their_order():
    assert names(*map(schedule, "cab")) == ["c", "a", "b"]


def test_a_dependency_that_is_not_there_does_not_change_the_order():
    assert names(schedule("b", "a"), schedule("c")) == ["b", "c"]


def test_a_cycle_is_named():
    given = schedule("free"), schedule("a", "b"), schedule("b", "c"), schedule("c", "a")
    with pytest.raises(InvalidInput, match="schedules without a cycle") as caught:
        check_dependencies(given)
    assert caught.value.got in {"a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"}


def test_an_unknown_dependency_is_named_with_the_nearest_known_one():
    with pytest.raises(InvalidInput, match=r"depends_on of schedule send: .* got 'reprot'; did you mean 'report'\?"):
        check_dependencies([schedule("send", "reprot"), schedule("report")])
    check_dependencies([schedule("send", "report")], known={"report"})
