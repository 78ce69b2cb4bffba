"""Corrupted envelopes, and keys that are rotated while signed jobs run."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

from holdfast import Holdfast
from holdfast.key_file import rotate
from holdfast.settings import Settings, read
from tests.signed_envelopes import corrupt_envelopes

BATCH_JOBS = 500
WAIT_SECONDS = 120.0


def run_signing(folder: Path, *, corruptions: int, rotations: int) -> str:
    """Check that no corrupted envelope is valid, and that no good job is rejected while keys are rotated."""
    found = corrupt_envelopes(corruptions, seed=100_000)
    jobs = run_rotations(folder, rotations=rotations)
    return (
        f"{corruptions:,} corrupted bytes of signed envelopes: no changed job is valid ({found:,} found by signature); "
        f"{rotations} rotations, {jobs:,} jobs: all done"
    )


def run_rotations(folder: Path, *, rotations: int) -> int:
    """Enqueue, rotate and run at the same time; return the number of jobs."""
    keys = folder / "keys"
    rotate(keys)
    settings = read(folder=folder, environ={"HOLDFAST_SIGNING": "required", "HOLDFAST_SIGNING_KEY_FILE": str(keys)})
    consumer, producer = (_make_app(folder, settings) for _ in range(2))
    worker, stop = consumer.worker(processes=2, lease=timedelta(seconds=10)), threading.Event()
    worker.prepare()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    for _ in range(rotations):
        producer.tasks["noop"].enqueue_many(range(BATCH_JOBS))
        rotate(keys)
        producer.close()  # the next client reads the new keys at once
        producer.client.enqueue([producer.request("noop", number) for number in range(BATCH_JOBS)])
    jobs = rotations * 2 * BATCH_JOBS
    stop.set()
    thread.join(WAIT_SECONDS)
    consumer.worker(processes=2, until_drained=True).run()
    [counts] = consumer.driver.counts()
    assert (counts.done, counts.dead) == (jobs, 0), counts
    consumer.close()
    producer.close()
    return jobs


def _make_app(folder: Path, settings: Settings) -> Holdfast:
    app = Holdfast(f"sqlite:///{folder / 'signing.db'}")
    app.use_settings(settings)
    app.handler("noop")(lambda payload: payload)
    return app
