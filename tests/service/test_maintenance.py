"""The service repairs every space of its store, also those that no token has named."""

import asyncio
import logging

import holdfast
from holdfast import Client, JobRequest
from holdfast.driver import State
from holdfast.log.events import WORKER_LOGGER
from holdfast.service.service import Service
from holdfast.service.timing import ServiceTiming
from holdfast.settings import Settings
from holdfast.worker.timing import MaintenanceTiming

TIMEOUT_SECONDS = 60
QUICK = ServiceTiming(maintenance_seconds=0.001, maintenance=MaintenanceTiming(reap_seconds=0.0))


def test_a_tenant_without_a_worker_is_repaired(caplog):
    with holdfast.connect("memory://") as store:
        quiet = store.space("quiet")
        [answer] = Client(quiet).enqueue([JobRequest(type="one")])
        assert len(quiet.reserve(["default"], limit=1, lease_for=1, worker="gone")) == 1

        async def serve() -> None:
            service = Service(store, Settings(), space="main", timing=QUICK)
            await service.start()
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while quiet.get(answer.id).state is State.INFLIGHT:  # noqa: ASYNC110 - nothing else tells
                        await asyncio.sleep(0.001)
            finally:
                await service.stop()

        with caplog.at_level(logging.WARNING, WORKER_LOGGER):
            asyncio.run(serve())
        assert quiet.get(answer.id).state is State.READY
        [expired] = [record for record in caplog.records if record.event == "lease.expired"]
        assert (expired.job_id, expired.space, expired.holder) == (answer.id, "quiet", "gone")


def test_expired_leases_that_a_claim_ends_are_logged_once(caplog):
    with holdfast.connect("memory://") as store:

        async def serve() -> None:
            service = Service(store, Settings(), space="main", timing=QUICK)
            await service.start()
            try:
                for space in ("main", "tenant"):
                    used = service.tenant(space).store
                    Client(used).enqueue(JobRequest(type=space, max_attempts=1))
                    used.reserve(["default"], limit=1, lease_for=1, worker="gone")
                    used.reserve(["default"], limit=1, lease_for=1, worker="claims")
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while len(dead()) < 2:  # noqa: ASYNC110 - nothing else tells
                        await asyncio.sleep(0.001)
            finally:
                await service.stop()

        def dead() -> list[tuple[str, str, str]]:
            return [(one.type, one.space, one.reason) for one in caplog.records if one.event == "job.dead"]

        with caplog.at_level(logging.WARNING, WORKER_LOGGER):
            asyncio.run(serve())
        assert sorted(dead()) == [(space, space, "lease expired") for space in ("main", "tenant")]
        assert len([one for one in caplog.records if one.event == "lease.expired"]) == 2
