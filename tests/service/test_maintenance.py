"""The service repairs every space of its store, also those that no token has named."""

import asyncio

import holdfast
from holdfast import Client, JobRequest
from holdfast.driver import State
from holdfast.service import service as service_module
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.worker import maintenance

TIMEOUT_SECONDS = 60


def test_a_tenant_without_a_worker_is_repaired(monkeypatch):
    monkeypatch.setattr(service_module, "MAINTENANCE_SECONDS", 0.001)
    monkeypatch.setattr(maintenance, "REAP_INTERVAL_SECONDS", 0.0)
    with holdfast.connect("memory://") as store:
        quiet = store.space("quiet")
        [answer] = Client(quiet).enqueue([JobRequest(type="one")])
        assert len(quiet.reserve(["default"], limit=1, lease_for=1)) == 1

        async def serve() -> None:
            service = Service(store, Settings(), space="main")
            await service.start()
            try:
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while quiet.get(answer.id).state is State.INFLIGHT:  # noqa: ASYNC110 - nothing else tells
                        await asyncio.sleep(0.001)
            finally:
                await service.stop()

        asyncio.run(serve())
        assert quiet.get(answer.id).state is State.READY
