"""Every driver passes the conformance suite."""

from collections import Counter

import psycopg
import pytest

import holdfast
from holdfast.drivers.packing import MAX_INLINE_BYTES
from holdfast.drivers.sqlite import enqueue
from holdfast.testing.drivers.conformance import LAWS, cases
from holdfast.testing.drivers.conformance.__main__ import main
from holdfast.testing.drivers.harness import CaseSkipped
from tests.harnesses import STORES, open_harness

APART = [pytest.param(f"{store}, payloads apart", marks=pytest.mark.long) for store in ("sqlite", "postgres")]


@pytest.fixture(scope="module", params=[*STORES, *APART])
def harness(request):
    store, _, is_apart = request.param.partition(", ")
    with pytest.MonkeyPatch.context() as patch, open_harness(store, request) as harness:
        if is_apart:
            patch.setattr(enqueue, "MAX_INLINE_BYTES", -1)
        if is_apart and store == "postgres":
            keep_payloads_apart(harness.url)
        yield harness


def keep_payloads_apart(url):
    """Let the functions of this database think that every payload is large; what COPY stores is small."""
    holdfast.connect(url).close()
    functions = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname IN ('enqueue', 'enqueue_one')"
    with psycopg.connect(url, autocommit=True) as session:
        for (text,) in session.execute(functions).fetchall():
            assert str(MAX_INLINE_BYTES) in text
            session.execute(text.replace(str(MAX_INLINE_BYTES), "-1"))


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
