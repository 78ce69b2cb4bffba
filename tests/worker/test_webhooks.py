"""A worker with a secret delivers the callbacks of its space."""

from __future__ import annotations

from threading import Thread

from holdfast.settings import Settings
from holdfast.webhooks.worker_thread import WebhookThread
from tests.webhook_receiver import SECRET, receiving


def test_a_worker_delivers_the_callbacks_of_its_jobs(app):
    @app.handler("double")
    def double(number: int) -> int:
        return 2 * number

    with receiving() as receiver:
        app.use_settings(Settings(webhooks=receiver.settings))
        job = app.enqueue("double", 21, webhook=f"{receiver.url}/")
        worker = app.worker(processes=1)
        worker.prepare()
        thread = Thread(target=worker.run)
        thread.start()
        try:
            callback = receiver.await_callback(job.id)
        finally:
            worker.stop(at_once=True)
            thread.join(60)
        assert not thread.is_alive()
    assert (callback.body["status"], callback.body["result"]) == ("COMPLETED", 42)
    assert callback.is_signed_with(SECRET)


def test_only_a_worker_with_a_secret_that_does_not_stop_by_itself_delivers(app):
    @app.handler("noop")
    def noop(_: object) -> None: ...

    with receiving() as receiver:
        secrets = {True: receiver.settings, False: Settings().webhooks}

    def delivers(*, secret: bool, **options):
        app.use_settings(Settings(webhooks=secrets[secret]))
        observers = app.worker(**options)._observers._observers
        return any(isinstance(one, WebhookThread) for one in observers)

    assert delivers(secret=True)
    assert not delivers(secret=False)
    assert not delivers(secret=True, until_drained=True)
