"""``holdfast queue``."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

import holdfast
import holdfast.driver
from holdfast import QueueSettings
from holdfast.clock import HOUR, MINUTE, SystemClock
from holdfast.drivers.requests import Configure, Reap, Settings
from holdfast.model import bounds
from holdfast.model.limit_proposal import LimitProposal, QueueLimits
from holdfast.model.queue_settings import LimitOrigin
from holdfast.worker.limit_proposals import propose_limits


def test_queues_are_counted(run, filled):
    lines = run("queue", "list").out.splitlines()
    assert lines[0].split() == ["QUEUE", "READY", "SCHED", "INFL", "DONE", "DEAD", "CANC", "LIMITS"]
    assert lines[1].split() == ["mail", "2", "0", "1", "1", "6", "0"]
    assert lines[2].split() == ["reports", "0", "1", "0", "0", "0", "0"]
    [mail] = run("queue", "list", "mail", "--json").json
    assert (mail["queue"], mail["ready"], mail["dead"], mail["settings"]["paused_until"]) == ("mail", 2, 6, None)
    rows = run("queue", "list", "--types", "--json").json
    assert [(row["queue"], row["type"]) for row in rows] == [("mail", "mail.send"), ("reports", "report")]
    assert run("queue", "list", "--types").out.splitlines()[2].split()[:2] == ["reports", "report"]


def test_an_empty_store_has_no_queues(run, url, store):
    result = run("queue", "list")
    assert (result.out, result.err) == ("", "no jobs in this space\n")


def test_an_unknown_queue_is_an_error_that_lists_the_known_queues(run, filled):
    for command in (["list"], ["pause"], ["resume"], ["limit"], ["keys"], ["drain"]):
        err = run("queue", *command, "mial", code=4).err
        assert "no queue mial" in err
        assert "there are mail, reports" in err
    assert "queue: wanted 1 to 128" in run("queue", "pause", "no queue", code=2).err


def test_a_new_queue_can_be_configured_before_its_first_job(run, url):
    assert run("queue", "pause", "later", "--new").out == "later: paused\n"
    [row] = run("queue", "list", "later", "--json").json
    assert (row["ready"], row["settings"]["paused_until"]) == (0, "until resumed")


def test_pause_and_resume_keep_the_other_settings(run, filled):
    before = QueueSettings(max_inflight=3, rate=2.5, burst=9, dedupe_window=HOUR)
    filled.do(Configure(queue="mail", settings=before))
    assert run("queue", "pause", "mail").out == "mail: paused, max 3, 2.5/s burst 9, keys 1h\n"
    assert filled.do(Settings(queue="mail")).paused_until == bounds.MAX_INSTANT
    assert filled.reserve(["mail"], limit=1, lease_for=MINUTE) == []
    assert run("queue", "resume", "mail").out == "mail: max 3, 2.5/s burst 9, keys 1h\n"
    assert filled.do(Settings(queue="mail")) == before


def test_a_pause_can_end_automatically(run, filled):
    now = SystemClock().now()
    assert "paused, ends in 4m" in run("queue", "pause", "mail", "--for", "5m").out
    assert 0 <= filled.do(Settings(queue="mail")).paused_until - now - 5 * MINUTE < MINUTE
    assert "paused" in run("queue", "list").out
    assert "wanted a pause that ends later" in run("queue", "pause", "mail", "--for", "0s", code=2).err


def test_one_type_can_be_paused(run, filled):
    assert run("queue", "pause", "mail", "--type", "mail.send").out == "mail (mail.send): paused\n"
    assert filled.do(Settings(queue="mail")) == QueueSettings()
    assert filled.do(Settings(queue="mail", type="mail.send")).paused_until == bounds.MAX_INSTANT
    assert run("queue", "resume", "mail", "--type", "mail.send", "--json").json["type"] == "mail.send"


def test_limit_changes_only_the_named_limits(run, filled):
    run("queue", "limit", "mail", "--max-inflight", "4")
    run("queue", "limit", "mail", "--rate", "600/m")
    assert run("queue", "limit", "mail", "--burst", "7").out == "mail: max 4, 10/s burst 7\n"
    assert run("queue", "limit", "mail", "--max-inflight", "none").out == "mail: 10/s burst 7\n"
    assert run("queue", "limit", "mail").out == "mail: 10/s burst 7\n"
    assert run("queue", "limit", "mail", "--rate", "none").out == "mail: no pause and no limits\n"
    assert filled.do(Settings(queue="mail")) == QueueSettings(limits_from=LimitOrigin.OPERATOR)


def test_limits_by_key_are_set_shown_and_removed(run, filled):
    run("queue", "limit", "mail", "--key-max-inflight", "2")
    assert run("queue", "limit", "mail", "--key-rate", "600/m").out == "mail: max 2 per key, 10/s per key\n"
    assert run("queue", "list").out.splitlines()[1].endswith("max 2 per key, 10/s per key")
    [row] = run("queue", "list", "mail", "--json").json
    assert (row["settings"]["key_max_inflight"], row["settings"]["key_rate"]) == (2, 10)
    assert row["settings"]["limits_from"] == "operator"
    run("queue", "limit", "mail", "--key-burst", "3")
    assert run("queue", "limit", "mail", "--key-rate", "none").out == "mail: max 2 per key\n"
    assert run("queue", "limit", "mail", "--reset").out == "mail: no pause and no limits\n"


def test_setting_a_limit_by_key_ends_the_pauses_of_keys(run, url, filled):
    filled.enqueue(
        [
            holdfast.driver.JobRecord(
                id=name, type="t", queue="mail", payload=b"1", created_at=1, priority=9, limit_key="a"
            )
            for name in ("first", "second")
        ]
    )
    [first] = filled.reserve(["mail"], limit=1, lease_for=MINUTE)
    filled.settle([holdfast.driver.Retry(first.lease, delay=HOUR, hold_key=True)])
    assert filled.reserve(["mail"], types=["t"], limit=1, lease_for=MINUTE) == []
    run("queue", "limit", "mail", "--key-max-inflight", "none")
    assert len(filled.reserve(["mail"], types=["t"], limit=1, lease_for=MINUTE)) == 1


def test_the_window_of_keys_is_shown_and_changed_alone(run, filled):
    run("queue", "limit", "mail", "--max-inflight", "4")
    described = "mail: a key is taken for {}, and while its job has not ended\n"
    assert run("queue", "keys", "mail").out == described.format("1d")
    assert run("queue", "keys", "mail", "--for", "36h").out == described.format("1d12h")
    assert filled.do(Settings(queue="mail")) == QueueSettings(
        max_inflight=4, dedupe_window=36 * HOUR, limits_from=LimitOrigin.OPERATOR
    )
    assert run("queue", "limit", "mail").out == "mail: max 4, keys 1d12h\n"
    assert run("queue", "keys", "mail", "--json").json["settings"]["dedupe_window"] == 36 * 3600
    assert "dedupe_window: wanted a whole number from 1" in run("queue", "keys", "mail", "--for", "0s", code=2).err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-inflight", "0"], "--max-inflight: wanted at least 1, or none"),
        (["--max-inflight", "-3"], "max_inflight: wanted a whole number"),
        (["--max-inflight", "few"], "not a valid integer"),
        (["--rate", "fast"], "wanted a rate such as"),
        (["--rate", "0"], "wanted a rate such as"),
        (["--burst", "3"], "burst: wanted a rate beside it"),
        (["--key-burst", "3"], "key_burst: wanted a rate beside it"),
        (["--key-rate", "3", "--type", "mail.send"], "--key-rate: wanted a queue without --type"),
    ],
)
def test_invalid_limits_are_refused(run, filled, options, message):
    assert message in run("queue", "limit", "mail", *options, code=2).err
    assert filled.do(Settings(queue="mail")) == QueueSettings()


def test_drain_waits_until_the_queue_is_empty(run, filled):
    def work() -> None:
        for one in filled.reserve(["mail"], limit=9, lease_for=MINUTE):
            holdfast.driver.ack(filled, one.lease)
        filled.do(Reap(worker="host-a"))
        for one in filled.reserve(["mail"], limit=9, lease_for=MINUTE):
            holdfast.driver.ack(filled, one.lease)

    timer = threading.Timer(0.3, work)
    timer.start()
    assert run("queue", "drain", "mail", "--timeout", "30s").out == "mail: empty\n"
    timer.join()


def test_drain_times_out_and_notes_a_pause(run, filled):
    run("queue", "pause", "mail")
    result = run("queue", "drain", "mail", "--timeout", "100ms", code=5)
    assert "mail is paused" in result.err
    assert "3 jobs are left in mail" in result.err


def test_drain_due_ignores_scheduled_jobs(run, filled):
    assert run("queue", "drain", "reports", "--due").out == "reports: empty\n"
    assert "1 jobs are left" in run("queue", "drain", "reports", "--timeout", "10ms", code=5).err


# Who set the limits, breakers, and waiting for running jobs ---------------------------------------------------


def propose(store, origin, **limits):
    proposal = LimitProposal(queue="mail", type="mail.send", limits=QueueLimits(**limits), origin=origin)
    propose_limits(store, [proposal])


def test_the_list_of_queues_shows_the_limits_of_handlers(run, filled):
    propose(filled, LimitOrigin.HANDLER, rate=5)
    assert run("queue", "list").out.splitlines()[1].endswith("mail.send: 5/s, from the handler")
    mail, reports = run("queue", "list", "--json").json
    assert (mail["settings"]["limits_from"], reports["types"]) == (None, {})
    assert (mail["types"]["mail.send"]["rate"], mail["types"]["mail.send"]["limits_from"]) == (5, "handler")
    run("queue", "limit", "mail", "--max-inflight", "3")
    assert run("queue", "list").out.splitlines()[1].endswith("max 3; mail.send: 5/s, from the handler")


def test_the_list_says_who_set_the_limits(run, filled):
    propose(filled, LimitOrigin.HANDLER, rate=5)
    assert run("queue", "list", "--types").out.splitlines()[1].endswith("5/s, from the handler")
    propose(filled, LimitOrigin.SETTINGS, rate=7)
    assert run("queue", "list", "--types").out.splitlines()[1].endswith("7/s, from the settings")
    assert run("queue", "limit", "mail", "--type", "mail.send", "--rate", "none").out.endswith(
        "no pause and no limits\n"
    )
    propose(filled, LimitOrigin.SETTINGS, rate=7)
    assert filled.do(Settings(queue="mail", type="mail.send")).rate is None  # the operator wants no limit
    run("queue", "limit", "mail", "--type", "mail.send", "--max-inflight", "4")
    [row] = run("queue", "list", "mail", "--types", "--json").json
    assert (row["settings"]["max_inflight"], row["settings"]["limits_from"]) == (4, "operator")
    run("queue", "limit", "mail", "--type", "mail.send", "--reset")
    propose(filled, LimitOrigin.HANDLER, rate=5)
    [row] = run("queue", "list", "mail", "--types", "--json").json
    assert (row["settings"]["rate"], row["settings"]["limits_from"]) == (5, "handler")
    assert "either --reset or limits" in run("queue", "limit", "mail", "--reset", "--rate", "1", code=2).err


def test_an_open_breaker_is_shown_and_resume_closes_it(run, url, filled):
    app = holdfast.Holdfast(url)

    @app.handler("mail.send", queue="mail", breaker_threshold=1, breaker_cooldown=timedelta(hours=1))
    def send(_payload):
        raise ConnectionError

    assert app.worker().process_once().status == "retried"
    app.close()
    assert "breaker open, ends in 59m" in run("queue", "list", "mail", "--types").out
    assert "mail.send in mail" in next(
        check["text"] for check in run("doctor", "--json").json["checks"] if check["name"] == "breakers"
    )
    queue = run("queue", "resume", "mail")  # ends only the pause of the queue
    assert (queue.out, "mail.send is still paused" in queue.err) == ("mail: no pause and no limits\n", True)
    resumed = run("queue", "resume", "mail", "--type", "mail.send")
    assert (resumed.out, resumed.err) == ("mail (mail.send): no pause and no limits\n", "")
    assert filled.do(Settings(queue="mail", type="mail.send")) == QueueSettings()
    assert "breakers" not in {check["name"] for check in run("doctor", "--json").json["checks"]}


def test_a_pause_can_wait_until_nothing_is_in_flight(run, filled):
    assert "1 jobs of mail are in flight" in run("queue", "pause", "mail", "--wait", "--timeout", "0s", code=5).err
    [running] = filled.find(holdfast.driver.JobFilter(states=(holdfast.State.INFLIGHT,))).items
    filled.do(Reap(worker="host-a"))
    assert run("queue", "pause", "mail", "--wait", "--timeout", "1m").out == "mail: paused\n"
    assert filled.get(running.id).state == "ready"
    assert "--timeout: wanted --wait" in run("queue", "pause", "mail", "--timeout", "1m", code=2).err
