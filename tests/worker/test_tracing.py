"""Spans of OpenTelemetry, made by the real SDK in the producer and in the forked processes of a worker."""

import json
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import asyncio, json, os, sys
    from datetime import timedelta
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from holdfast import Holdfast, Snooze, Unrecoverable
    from holdfast.retry import Fixed
    from holdfast.worker.timing import WorkerTiming

    url, out, concurrency = sys.argv[1:]

    class FileExporter(SpanExporter):
        def export(self, spans):
            with open(out, "a") as file:
                for span in spans:
                    file.write(json.dumps({
                        "name": span.name,
                        "kind": span.kind.name,
                        "trace": f"{span.context.trace_id:032x}",
                        "span": f"{span.context.span_id:016x}",
                        "parent": span.parent and f"{span.parent.span_id:016x}",
                        "links": [f"{link.context.span_id:016x}" for link in span.links],
                        "status": span.status.status_code.name,
                        "description": span.status.description,
                        "events": [event.attributes["exception.type"] for event in span.events],
                        "attributes": dict(span.attributes),
                        "pid": os.getpid(),
                    }) + "\\n")
            return SpanExportResult.SUCCESS

    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(BatchSpanProcessor(FileExporter(), schedule_delay_millis=60_000))
    tracer = trace.get_tracer("test")
    app = Holdfast(url, tracing=True)

    @app.handler("order", max_attempts=2)
    def order(payload, ctx):
        if payload == "fails" and ctx.attempt == 1:
            raise ArithmeticError("once")
        if payload == "snoozes" and ctx.checkpoint is None:
            ctx.checkpoint = 1
            return Snooze(timedelta(milliseconds=1))
        if payload == "dead":
            raise Unrecoverable("no such customer")
        if payload == "parent":
            order.enqueue("nested")
        with tracer.start_as_current_span("inside"):
            pass

    @app.handler("async", timeout=timedelta(seconds=1))
    async def run_async(payload):
        with tracer.start_as_current_span("inside async"):
            await asyncio.sleep(60 if payload == "hangs" else 0)

    app.handler("plain", chunk=5)(lambda payloads: payloads) if concurrency == "1" else None
    for payload in ("fine", "fails", "snoozes", "dead", "parent"):
        with tracer.start_as_current_span(f"request {payload}"):
            order.enqueue(payload)
    with tracer.start_as_current_span("request async"):
        run_async.enqueue_many(["fine", "fine"])
    with tracer.start_as_current_span("request hangs"):
        run_async.enqueue("hangs", max_attempts=1)
    trace.get_tracer_provider().force_flush()
    worker = app.worker(
        processes=1, concurrency=int(concurrency), until_drained=True, retry=Fixed(timedelta(milliseconds=1))
    )
    worker.timing = WorkerTiming(release_seconds=60)  # some jobs wait behind the one that hangs
    print(json.dumps(worker.run()))
"""


@pytest.mark.parametrize("concurrency", [1, 3])
def test_spans_lead_from_the_producer_to_every_attempt(tmp_path, concurrency):
    out = tmp_path / "spans"
    url = f"sqlite:///{tmp_path}/jobs.db"
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), url, str(out), str(concurrency)]
    ended = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"acked": 7, "retried": 1, "dead": 2, "released": 1}
    spans = [json.loads(line) for line in out.read_text().splitlines()]
    by_id = {span["span"]: span for span in spans}
    requests = {span["name"].removeprefix("request "): span for span in spans if span["name"].startswith("request ")}

    def attempts_of(payload):
        """The span of the enqueue, and those of the attempts: children of it, or linked to it."""
        [sent] = [one for one in spans if one["kind"] == "PRODUCER" and one["parent"] == requests[payload]["span"]]
        found = [one for one in spans if one["kind"] == "CONSUMER" and sent["span"] in (one["parent"], *one["links"])]
        return sent, sorted(found, key=lambda one: one["attributes"]["holdfast.job.attempt"])

    sent, [fine] = attempts_of("fine")
    assert (sent["name"], fine["name"], fine["trace"]) == ("enqueue order", "process order", sent["trace"])
    assert fine["pid"] != sent["pid"], "handlers run in another process"
    assert fine["status"] == "UNSET"
    attributes = fine["attributes"]
    assert attributes["messaging.message.id"] == sent["attributes"]["messaging.message.id"]
    assert attributes["messaging.destination.name"] == "default"
    assert (attributes["holdfast.job.attempt"], attributes["holdfast.job.outcome"]) == (1, "done")
    assert attributes["holdfast.job.fence"] >= 1
    assert "inside" in [one["name"] for one in spans if one["parent"] == fine["span"]]

    sent, [first, second] = attempts_of("fails")
    assert (first["status"], first["events"]) == ("ERROR", ["ArithmeticError"])
    assert first["description"] == "ArithmeticError: once"
    assert (second["parent"], second["links"], second["status"]) == (None, [sent["span"]], "UNSET")
    assert second["trace"] != first["trace"] == sent["trace"]

    _, snoozes = attempts_of("snoozes")
    assert {one["status"] for one in snoozes} == {"UNSET"}
    assert {one["attributes"]["holdfast.job.outcome"] for one in snoozes} == {"snooze", "done"}

    _, [dead] = attempts_of("dead")
    assert (dead["status"], dead["attributes"]["holdfast.job.outcome"]) == ("ERROR", "unrecoverable")

    _, [parent] = attempts_of("parent")
    [nested] = [one for one in spans if one["kind"] == "PRODUCER" and one["parent"] == parent["span"]]
    assert [one["name"] for one in spans if one["parent"] == nested["span"]] == ["process order"]

    sent, both = attempts_of("async")
    assert sent["attributes"]["messaging.batch.message_count"] == 2
    inside = [
        by_id[one["parent"]]["span"] for one in spans if one["name"] == "inside async" and one["status"] == "UNSET"
    ]
    assert {one["span"] for one in both} <= set(inside), "an async handler sees the span of its own attempt"

    _, [hangs] = attempts_of("hangs")
    assert (hangs["status"], hangs["description"]) == ("ERROR", "timeout")


def test_without_the_package_the_error_says_what_to_install():
    code = "import sys; sys.modules['opentelemetry'] = None; from holdfast import Holdfast; Holdfast(tracing=True)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'holdfast[otel]'" in ended.stderr
