"""Every driver passes the conformance suite."""

from collections import Counter

import pytest

from holdfast.drivers.sqlite import enqueue as sqlite_enqueue
from holdfast.testing.drivers.conformance import LAWS, cases
from holdfast.testing.drivers.conformance.__main__ import main
from holdfast.testing.drivers.harness import CaseSkipped
from tests.harnesses import STORES, open_harness


@pytest.fixture(scope="module", params=[*STORES, pytest.param("sqlite, payloads apart", marks=pytest.mark.long)])
def harness(request):
    store, _, is_apart = request.param.partition(", ")
    with pytest.MonkeyPatch.context() as patch, open_harness(store, request) as harness:
        if is_apart:
            patch.setattr(sqlite_enqueue, "MAX_INLINE_BYTES", -1)
        yield harness


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.topic}: {case.name}".replace(" ", "_"))
def test_conformance(harness, case):
    try:
        case.run(harness)
    except CaseSkipped as skipped:
        pytest.skip(str(skipped))


def test_every_law_has_cases():
    cited = {law for case in cases() for law in case.laws}
    assert cited == set(LAWS)


def test_no_two_cases_of_a_topic_have_the_same_name():
    counts = Counter((case.topic, case.name) for case in cases())
    assert [name for name, count in counts.items() if count > 1] == []


def test_the_suite_runs_from_the_command_line(capsys):
    assert main(["memory://", "--law", "L12", "-k", "key"]) == 0
    assert " 0 failed" in capsys.readouterr().out


def test_options_that_select_no_case_are_an_error():
    assert main(["memory://", "-k", "no such case"]) == 2
