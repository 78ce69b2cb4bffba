"""``holdfast dead``."""

from __future__ import annotations

import re
import subprocess
import time
from collections import Counter

import pytest

import holdfast
from holdfast.drivers.requests import Requeue
from holdfast.model.filters import JobFilter
from holdfast.model.job import State


def letters(store) -> list[str]:
    return [letter.id for letter in store.find(JobFilter(states=(State.DEAD,)))]


def test_list_shows_dead_letters_with_their_reason(run, filled):
    lines = run("dead", "list").out.splitlines()
    assert len(lines) == 7
    assert lines[1].endswith("mail.send  bad address: 550 no such user 'u0@example.org'")
    items = run("dead", "list", "--json", "--reason", "unhandled").json["items"]
    assert [item["last_error"] for item in items] == [
        "timed out after 4.5 s at 0x7f3a4",
        "timed out after 5.5 s at 0x7f3a5",
    ]
    assert len({item["fingerprint"] for item in items}) == 1
    assert run("dead", "list", "--queue", "reports").err == "no dead letter matches\n"


def test_list_and_show_name_the_exception_and_not_the_markers_of_its_traceback(run, store, url):
    app = holdfast.Holdfast(url)

    @app.handler("t", max_attempts=1)
    def fails(payload):
        return 1 / payload

    answer = fails.enqueue(0)
    assert app.worker().process_once().status == "dead"
    app.close()
    assert "~^~" in store.get(answer.id).last_error
    assert run("dead", "list").out.splitlines()[1].endswith("attempts exhausted: ZeroDivisionError: division by zero")
    assert run("ledger").out.splitlines()[1].endswith("  ZeroDivisionError: division by zero")
    shown = run("job", "show", answer.id).out
    assert "return 1 / payload" in shown
    assert "~^~" not in shown


def test_list_returns_every_letter_once_over_pages_also_with_a_fingerprint(run, filled):
    [largest, *_] = run("dead", "groups", "--json").json
    for filters, count in (([], 6), (["--fingerprint", largest["fingerprint"]], 4)):
        seen, after = [], []
        while True:
            page = run("dead", "list", "--json", "--limit", "2", *filters, *after).json
            seen += [item["id"] for item in page["items"]]
            if page["cursor"] is None:
                break
            after = ["--after", page["cursor"]]
        assert len(set(seen)) == len(seen) == count
    assert "more: --after" in run("dead", "list", "--limit", "2").err


def test_groups_counts_letters_that_failed_for_the_same_reason(run, filled):
    first, second = run("dead", "groups", "--json").json
    assert (first["count"], first["type"], first["reason"], first["error"]) == (
        4,
        "mail.send",
        "bad address",
        "# no such user '…'",
    )
    assert (second["count"], second["error"]) == (2, "timed out after # s at <address>")
    assert first["example"] in letters(filled)
    assert first["first"] <= first["last"]
    lines = run("dead", "groups").out.splitlines()
    assert lines[1].split()[:2] == [first["fingerprint"], "4"]
    assert "and 1 smaller groups" in run("dead", "groups", "--limit", "1").err
    assert run("dead", "groups", "--until", "1h").err == "no dead letter matches\n"


def test_groups_reads_as_many_letters_as_it_may_and_says_how_to_go_on(run, filled):
    every = {group["fingerprint"]: group["count"] for group in run("dead", "groups", "--json").json}
    some: Counter[str] = Counter()
    result = run("dead", "groups", "--most", "2", "--json")
    while result.err:
        assert "only the first 2 letters were read" in result.err
        some.update({group["fingerprint"]: group["count"] for group in result.json})
        [cursor] = re.findall(r"--after (\S+),", result.err)
        result = run("dead", "groups", "--most", "2", "--after", cursor, "--json")
    some.update({group["fingerprint"]: group["count"] for group in result.json})
    assert some == every


def test_show_prints_a_dead_letter_and_refuses_other_jobs(run, filled):
    [letter, *_] = letters(filled)
    assert "reason       bad address" in run("dead", "show", letter).out
    assert run("dead", "show", letter, "--json").json["dead_reason"] == "bad address"
    [job] = filled.find(JobFilter(states=(State.DONE,)))
    assert "is not a dead letter, it is done" in run("dead", "show", job.id, code=4).err
    assert "no job nope" in run("dead", "show", "nope", code=4).err


def test_requeue_shows_the_count_and_asks_for_confirmation(run, filled):
    no = run("dead", "requeue", "--reason", "bad address", stdin="n\n", code=1)
    assert "requeue 4 dead letters? [y/N]" in no.err
    assert "nothing was changed" in no.err
    assert len(letters(filled)) == 6
    assert "nothing was changed" in run("dead", "requeue", "--all", code=1).err
    yes = run("dead", "requeue", "--reason", "bad address", stdin="y\n")
    assert yes.out.splitlines()[-1] == "requeued 4 dead letters"
    assert len(letters(filled)) == 2


def test_letters_that_changed_before_the_confirmation_are_a_failure(start, filled):
    command = start("dead", "purge", "--reason", "bad address", stdin=subprocess.PIPE)
    question = iter(lambda: command.stderr.read(1), "")
    assert any(character == "]" for character in question)
    filled.do(Requeue(job_ids=letters(filled)[:1]))
    out, err = command.communicate("y\n", timeout=60)
    assert (command.returncode, out.splitlines()[-1]) == (1, "purged 3 dead letters")
    assert "1 of them were no longer dead, or wait for a reader of the ledger, and were not changed" in err


def test_a_dry_run_changes_nothing(run, filled):
    assert run("dead", "purge", "--all", "--dry-run").out.splitlines()[-1] == "would purge 6 dead letters"
    assert run("dead", "purge", "--all", "--dry-run", "--json").json["chosen"] == 6
    assert len(letters(filled)) == 6


def test_purge_removes_the_selected_letters(run, filled):
    group = run("dead", "groups", "--json").json[1]
    answer = run("dead", "purge", "--fingerprint", group["fingerprint"], "--yes", "--json").json
    assert (answer["chosen"], answer["purged"], len(answer["groups"])) == (2, 2, 1)
    assert len(letters(filled)) == 4
    assert run("dead", "purge", *letters(filled)[:2], "--yes").out.splitlines()[-1] == "purged 2 dead letters"
    assert run("dead", "purge", "--all", "--most", "1", "--yes").out.splitlines()[-1] == "purged 1 dead letter"
    assert run("dead", "purge", "--type", "none", "--yes").err == "no dead letter matches\n"
    assert run("dead", "purge", "--type", "none", "--yes", "--json").json == {"chosen": 0, "purged": 0, "groups": []}


def test_requeue_respects_the_rate(run, filled):
    began = time.monotonic()
    run("dead", "requeue", "--all", "--yes", "--rate", "10/s")
    assert 0.5 <= time.monotonic() - began < 5
    assert letters(filled) == []


@pytest.mark.parametrize("command", ["requeue", "purge"])
def test_the_selection_must_be_explicit(run, filled, command):
    [letter, *_] = letters(filled)
    [done] = filled.find(JobFilter(states=(State.DONE,)))
    assert "wanted ids, a filter, or --all" in run("dead", command, "--yes", code=2).err
    assert "either ids or a filter" in run("dead", command, letter, "--all", code=2).err
    assert "no job nope" in run("dead", command, letter, "nope", "--yes", code=4).err
    assert "is not a dead letter, it is done" in run("dead", command, letter, done.id, "--yes", code=1).err
    assert "wanted a rate such as" in run("dead", command, "--all", "--rate", "slow", code=2).err
    assert len(letters(filled)) == 6
