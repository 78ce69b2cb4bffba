"""structlog takes over the records of a worker and of its handlers, with the fields of the job."""

import json
import os
import subprocess
import sys

PROGRAM = """
import logging, sys
import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter
from holdfast import Holdfast
from holdfast.observability import JobFields

app = Holdfast("sqlite:///jobs.db")

@app.handler("mail.send", queue="mail", max_attempts=1)
def send(payload, ctx):
    ctx.log.info("to %s", payload["to"], extra={"order": 17})
    logging.getLogger("shop").info("sent")
    structlog.get_logger("shop").info("charged", amount=3)
    if payload["to"] == "nobody":
        raise ValueError("no such\\nuser")

if __name__ == "__main__":
    handler = logging.StreamHandler(sys.stdout)
    handler.addFilter(JobFields())
    renderers = [ExtraAdder(), ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()]
    handler.setFormatter(ProcessorFormatter(processors=renderers, foreign_pre_chain=[structlog.stdlib.add_log_level]))
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    structlog.configure(
        processors=[structlog.stdlib.add_log_level, ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    for to in ("ada", "nobody"):
        send.enqueue({"to": to})
    app.worker(processes=1, until_drained=True).run()
"""


def test_every_line_is_an_object_of_structlog_with_the_fields_of_the_job(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    by_event: dict[str, list[dict[str, object]]] = {}
    for line in lines:
        by_event.setdefault(str(line["event"]), []).append(line)
    [finished], [dead] = by_event["job.done"], by_event["job.dead"]
    fields = {"type": "mail.send", "queue": "mail", "attempt": 1, "job_id": finished["job_id"]}
    assert fields.items() <= finished.items()
    assert {"worker", "fence", "duration", "level"} <= finished.keys()
    assert (dead["level"], dead["reason"], dead["error"]) == ("error", "attempts exhausted", "ValueError: no such")
    for event, own in (("to ada", {"order": 17}), ("sent", {}), ("charged", {"amount": 3})):
        line = next(one for one in by_event[event] if one["job_id"] == finished["job_id"])
        assert (fields | own).items() <= line.items(), line
        assert line["level"] == "info"
