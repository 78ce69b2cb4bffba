"""What a worker reports to its observers."""

import threading
from datetime import timedelta

from holdfast.connect import connect
from holdfast.drivers.requests import Inspect
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.waiting import wait_until


class Recorder(WorkerObserver):
    def __init__(self):
        self.reports = []

    def started(self, worker, queues):
        self.reports.append(("started", worker, list(queues)))

    def reserved(self, reservations, _seconds):
        if reservations:
            self.reports.append(("reserved", [each.job.type for each in reservations]))

    def settled(self, settled):
        self.reports += [("settled", each.run.reservation.job.type, each.status) for each in settled]

    def extended(self, leases, late_seconds):
        assert late_seconds >= 0
        self.reports.append(("extended", leases))

    def stopped(self, worker, statuses):
        self.reports.append(("stopped", worker, dict(statuses)))


class Failing(WorkerObserver):
    def settled(self, _settled):
        raise ArithmeticError("of an observer")

    def looped(self, *, full):
        raise ArithmeticError("of an observer" if full is not None else "")


def run(app, *observers):
    options = WorkerOptions(until_drained=True, processes=1, name="w", lease=timedelta(seconds=2))
    return Worker(app.driver, options, catalogue=app.catalogue, observers=observers).run()


def test_a_worker_reports_everything_that_it_does(app):
    recorder = Recorder()
    url = app.url

    @app.handler("t")
    def wait_for_heartbeat(_payload, ctx):
        with connect(url) as store:
            granted = store.do(Inspect(job_ids=[ctx.job.id]))[ctx.job.id].expires_at
            wait_until(lambda: store.do(Inspect(job_ids=[ctx.job.id]))[ctx.job.id].expires_at > granted)

    wait_for_heartbeat.enqueue()
    run(app, recorder)
    kinds = [report[0] for report in recorder.reports]
    assert recorder.reports[0] == ("started", "w", ["default"])
    assert recorder.reports[-1] == ("stopped", "w", {"acked": 1})
    assert ("reserved", ["t"]) in recorder.reports
    assert ("extended", 1) in recorder.reports
    assert kinds.index("reserved") < kinds.index("extended") < kinds.index("settled")


def test_an_observer_that_fails_disturbs_neither_the_worker_nor_others(app, caplog):
    app.handler("t")(lambda payload: payload).enqueue_many(range(3))
    recorder = Recorder()
    assert run(app, Failing(), recorder) == {"acked": 3}
    assert recorder.reports.count(("settled", "t", "acked")) == 3
    [failed] = [record for record in caplog.records if record.event == "observer.failed"]
    assert (failed.observer, failed.reason, failed.failures) == ("Failing", "ArithmeticError: of an observer", 1)


def test_a_stop_is_reported_when_it_comes_and_when_the_worker_has_ended(app):
    app.handler("t")(lambda payload: payload)
    stop = threading.Event()

    class Stopping(Recorder):
        def looped(self, *, full):
            self.reports.append(("looped", full))
            stop.set()

        def stopping(self):
            self.reports.append(("stopping",))

    recorder = Stopping()
    Worker(app.driver, WorkerOptions(processes=1, name="w"), catalogue=app.catalogue, observers=[recorder]).run(stop)
    kinds = [report for report in recorder.reports if report[0] in ("looped", "stopping", "stopped")]
    assert kinds == [("looped", False), ("stopping",), ("stopped", "w", {})]
