"""Ordered queues on slots: domains run one job at a time and in the order of offsets, also if slots are killed."""

import os
import random
import signal
import time
from datetime import timedelta

from holdfast.app import Holdfast
from holdfast.driver import Gaps, JobFilter, QueueSettings, State
from holdfast.drivers.requests import Configure, Inspect, Read
from holdfast.model.retry import Fixed
from holdfast.spark import run_queue
from holdfast.spark.execution.run_spec import SLOT_STATUS_KIND, SlotStatus
from holdfast.spark.history.store_audit import audit_store
from tests.spark.conftest import OPTIONS

DOMAINS, OFFSETS = 6, 8


def test_offsets_that_arrive_shuffled_and_twice_run_once_and_in_order(spark, postgres_database, tmp_path):
    app, killed, stuck = Holdfast(postgres_database()), [], tmp_path / "stuck"

    @app.handler("step", queue="steps", retry=Fixed(timedelta(milliseconds=10)))
    def step(payload, ctx):
        if payload == ["d1", 4] and not stuck.exists():
            stuck.touch()
            time.sleep(600)  # until its slot is killed
        if payload[1] % 5 == 3 and ctx.attempt == 1:
            raise ValueError("at first")

    def kill(_progress):
        if stuck.exists() and not killed:
            [job] = app.driver.find(JobFilter(domain="d1", states=(State.INFLIGHT,)))
            [entry] = app.driver.do(
                Read(kind=SLOT_STATUS_KIND, keys=[app.driver.do(Inspect(job_ids=[job.id]))[job.id].worker])
            )
            killed.append(int(SlotStatus.of(entry).executor.rpartition(":")[2]))
            os.kill(killed[0], signal.SIGKILL)

    app.driver.do(Configure(queue="steps", settings=QueueSettings(gaps=Gaps.WAIT), only=("gaps",)))
    places = [(f"d{domain}", offset) for domain in range(DOMAINS) for offset in range(OFFSETS)]
    shuffled = random.Random(1).sample([*places, *places], 2 * len(places))
    for start in range(0, len(shuffled), 20):
        app.client.enqueue(
            [
                step.request([domain, offset], domain=domain, offset=offset)
                for domain, offset in shuffled[start : start + 20]
            ]
        )
    run_queue(app, spark=spark, slots=2, options=OPTIONS, on_progress=kill)
    assert len(killed) == 1
    rows = app.driver.ledger(limit=1000).items
    done = [(row.domain, row.offset) for row in rows if row.state is State.DONE]
    assert sorted(done) == places
    for domain in {domain for domain, _ in places}:
        assert [offset for each, offset in done if each == domain] == list(range(OFFSETS))
    certificate = audit_store(app.driver, spark=spark)
    assert certificate.holds, certificate.violations
    assert (certificate.domains, certificate.violation_counts["domain_past"]) == (DOMAINS, 0)
    app.close()
