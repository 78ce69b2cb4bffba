"""Every example runs and keeps its own asserts; the demo proves itself, cleans up, and can fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from examples._demo_certificate import Evidence, certify
from holdfast import Client, Enqueued, JobRequest, connect
from holdfast.clock import SECOND, ManualClock
from holdfast.drivers.contract import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Retry

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.py"
ALL = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("_"))
SMALL = [path.name for path in ALL if "holdfast.spark" not in path.read_text("utf-8") and path != DEMO]


def run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(argv, env=environment(folder), capture_output=True, text=True, timeout=120, check=False)


def environment(folder: Path) -> dict[str, str]:
    """Temporary files in a folder of the test, so that leftovers are seen."""
    return os.environ | {"TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80"}


@pytest.mark.parametrize("name", SMALL)
def test_example_runs_prints_and_leaves_nothing_behind(name, tmp_path):
    ran = run(EXAMPLES / name, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_example_stands_in_the_readme():
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in ALL if f"[`{path.name}`]({path.name})" not in readme] == []


# The demo -------------------------------------------------------------------------------------------------------


def test_the_demo_proves_itself_in_json(tmp_path):
    ran = run(DEMO, "--jobs", 600, "--workers", 3, "--json", folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    summary = json.loads(ran.stdout)
    assert summary["ok"] is True
    assert len(summary["certificate"]) == 7
    assert [line for line in summary["certificate"] if line["violations"]] == []
    assert (summary["resent"], summary["resent_made"]) == (30, 0)
    assert summary["stale_refused"] > 0
    assert summary["lost"] >= summary["stale_refused"]
    assert summary["killed_holding"] > 0
    assert summary["run_again"] >= summary["stale_refused"] + summary["killed_holding"]
    assert summary["dead_letters"]["poison"] == 1
    assert summary["requeued"] == summary["dead_letters"]["unknown currency XTS"] > 0
    assert summary["done"] + summary["dead"] == 600
    assert list(tmp_path.iterdir()) == []


def test_the_demo_reads_well_when_piped_and_keeps_its_database(tmp_path):
    kept = tmp_path / "kept.db"
    ran = run(DEMO, "--jobs", 300, "--workers", 3, "--seed", 7, "--keep", kept, folder=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    assert ran.stdout.count("✓") == 7
    assert all(heading in ran.stdout for heading in ("Enqueue", "Work", "Outcome", "Dead letters", "Proof", "Next"))
    with contextlib.closing(connect(f"sqlite:///{kept}")) as store:
        assert sum(row.done + row.dead for row in store.counts()) == 300


@pytest.mark.parametrize("arguments", [("--jobs", "5"), ("--workers", "2"), ("--keep", str(DEMO))])
def test_the_demo_refuses_what_it_cannot_show(arguments, tmp_path):
    ran = run(DEMO, *arguments, folder=tmp_path)
    assert ran.returncode == 2
    assert f"{arguments[0]}: wanted" in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_no_process_and_no_file(number, tmp_path):
    argv = [sys.executable, str(DEMO), "--workers", "3"]
    with subprocess.Popen(argv, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if b"(SIGKILL)" in line:  # by now one worker is stopped, one killed, one at work
                break
        children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children")
        workers = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        demo.send_signal(number)
        _, stderr = demo.communicate(timeout=30)
    assert demo.returncode == 128 + number
    assert stderr == (b"demo: interrupted; its workers are gone\n" if number == signal.SIGINT else b"")
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []
    assert list(tmp_path.iterdir()) == []


# The certificate ------------------------------------------------------------------------------------------------

LEASE_FOR = 10 * SECOND


@pytest.fixture(scope="module")
def evidence():
    """A true history: an ack, a retry, a lost lease, a dead letter requeued, a domain of three, a key sent twice."""
    clock = ManualClock()
    with contextlib.closing(connect("memory://", clock=clock)) as store:
        requests = [
            JobRequest(type="flaky"),
            JobRequest(type="lost"),
            JobRequest(type="dead"),
            *(JobRequest(type="step", domain="d") for _ in range(3)),
            JobRequest(type="keyed", idempotency_key="k"),
        ]
        answers = Client(store, clock=clock).enqueue(requests)
        [again] = Client(store, clock=clock).enqueue([requests[-1]])
        told, lost = Counter(), None
        while batch := store.reserve(["default"], limit=10, lease_for=LEASE_FOR, worker="w"):
            clock.advance(SECOND)
            for one in batch:
                match one.job.type, one.job.attempts:
                    case "flaky", 1:
                        settlement, ending = Retry(one.lease), "retried"
                    case "lost", 1:
                        lost = one.lease
                        continue
                    case "dead", _ if not any(row.ending is Ending.REQUEUED for row in store.ledger().items):
                        settlement, ending = Fail(one.lease, reason="no"), "dead"
                    case _:
                        settlement, ending = Ack(one.lease), "acked"
                assert store.settle([settlement]) == [None]
                told[ending] += 1
            store.requeue([answers[2].id])
            if not store.counts()[0].ready and lost is not None:
                clock.advance(LEASE_FOR)
                assert store.settle([Ack(lost)]) != [None]
                told["lost"], lost = 1, None
        return Evidence(
            accepted=[(answer.id, request.domain) for answer, request in zip(answers, requests, strict=True)],
            resent=[(answers[-1].id, again)],
            ledger=store.ledger().items,
            lease_for=LEASE_FOR,
            told={"w": told},
        )


def without(rows, index):
    return [*rows[:index], *rows[index + 1 :]]


def changed(evidence, where, **fields):
    """The evidence with the first ledger row for which ``where`` holds changed."""
    index = next(index for index, row in enumerate(evidence.ledger) if where(row))
    rows = list(evidence.ledger)
    rows[index] = replace(rows[index], **fields)
    return replace(evidence, ledger=rows)


def is_second(row):
    return row.type == "flaky" and row.attempt == 2


def test_a_true_history_is_certified(evidence):
    endings = {row.ending for row in evidence.ledger}
    assert endings == {Ending.ACKED, Ending.RETRIED, Ending.FAILED, Ending.EXPIRED, Ending.REQUEUED}
    assert evidence.told["w"]["lost"] == 1
    assert [claim.violations for claim in certify(evidence)] == [[]] * 7


PLANTED = {
    "a job that never ended": (
        "exactly once",
        lambda e: replace(e, ledger=[row for row in e.ledger if row.type != "keyed"]),
    ),
    "a job that ended twice": (
        "exactly once",
        lambda e: replace(e, ledger=[*e.ledger, replace(e.ledger[-1], fence=10_000)]),
    ),
    "a job that nobody enqueued": (
        "exactly once",
        lambda e: replace(e, ledger=[*e.ledger, replace(e.ledger[-1], job_id="stranger", fence=10_000)]),
    ),
    "a job that ran again after its end": (
        "exactly once",
        lambda e: changed(e, lambda row: row.ending is Ending.RETRIED, state=State.DONE),
    ),
    "a key that made a second job": (
        "no second job",
        lambda e: replace(e, resent=[(e.resent[0][0], Enqueued(id="another", existed=False))]),
    ),
    "two requests under one id": (
        "no second job",
        lambda e: replace(e, accepted=[*e.accepted, e.accepted[0]]),
    ),
    "two leases of one job at a time": (
        "never two",
        lambda e: changed(e, is_second, reserved_at=next(row for row in e.ledger if row.type == "flaky").ended_at - 1),
    ),
    "a fence that fell": (
        "fences",
        lambda e: changed(e, is_second, fence=0),
    ),
    "a fence used twice": (
        "fences",
        lambda e: changed(e, is_second, fence=next(row.fence for row in e.ledger if row.type == "keyed")),
    ),
    "a lease taken away early": (
        "taken away",
        lambda e: replace(e, lease_for=100 * SECOND),
    ),
    "a domain out of order": (
        "domains",
        lambda e: replace(e, accepted=[e.accepted[4], *without(e.accepted, 4)]),
    ),
    "a domain with two jobs at a time": (
        "domains",
        lambda e: changed(
            e,
            lambda row: row.domain is not None and row.job_id == e.accepted[4][0],
            reserved_at=next(row for row in e.ledger if row.job_id == e.accepted[3][0]).ended_at - 1,
        ),
    ),
    "a worker that was told of an ack nobody wrote": (
        "confirmed",
        lambda e: replace(e, told={"w": e.told["w"] + Counter(acked=1)}),
    ),
    "an ack that was refused and still counted": (
        "refused",
        lambda e: replace(e, told={"w": e.told["w"] - Counter(acked=1) + Counter(lost=1)}),
    ),
    "a failure that was written as an ack": (
        "confirmed",
        lambda e: changed(e, lambda row: row.ending is Ending.RETRIED, ending=Ending.ACKED),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name, evidence):
    words, plant = PLANTED[name]
    broken = [claim.text for claim in certify(plant(evidence)) if not claim.holds]
    assert any(words in text for text in broken), broken
