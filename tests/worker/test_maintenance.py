"""A failure of the upkeep is logged with its reason, and ends no worker."""

import logging

from holdfast.model import ledger_reader
from holdfast.model.registry import Change


def test_an_unreadable_ledger_reader_does_not_end_the_worker(app, drain, monkeypatch, caplog):
    """``trim`` cannot know up to which row it may remove the ledger, and refuses."""
    app.handler("one")(lambda _payload: None).enqueue(1)
    app.driver.write([Change(kind=ledger_reader.KIND, key="history", value=b"not JSON")])
    monkeypatch.setattr("holdfast.worker.maintenance.TRIM_INTERVAL_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        assert drain() == {"acked": 1}
    failures = [record for record in caplog.records if record.message == "maintenance.failed"]
    assert failures
    assert failures[0].task == "trim"
    assert "history" in failures[0].error
