"""The pages match the code: their snippets run, and their tables, numbers and test vectors are those of the code."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from docs import build
from holdfast.clock import DAY, SECOND
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration
from holdfast.model.job import JobRecord, State
from holdfast.model.request import JobRequest
from holdfast.model.unique import WHILE_QUEUED
from holdfast.wire.envelope import _Envelope, _Identity, _Status, from_envelope, to_envelope
from holdfast.wire.identity import identity_bytes
from holdfast.worker import heartbeat, settler
from holdfast.worker.limits import Limits
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes import dispatch

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorials" / "handlers.md"  # run by test_tutorial.py, command by command
PAGES = [ROOT / "README.md", *(page for page in build.pages() if DOCS in page.parents and page != TUTORIAL)]
PROGRAMS = [DOCS / "guides" / name for name in ("django.md", "fastapi.md", "sqlalchemy.md")]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_parameter(path: Path) -> object:
    """Return a page as a parameter. Pages about Spark share a session with the examples of tests/spark."""
    marks = [pytest.mark.xdist_group("spark-history")] if "holdfast.spark" in path.read_text(encoding="utf-8") else []
    return pytest.param(path, id=path.relative_to(ROOT).as_posix(), marks=marks)


@pytest.mark.parametrize("page", [page_parameter(path) for path in PAGES if path not in PROGRAMS])
def test_every_python_snippet_of_a_page_runs(page: Path, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for snippet in FENCED.finditer(text):
        if snippet[1] == "python":
            line = text.count("\n", 0, snippet.start(2))  # a traceback then shows the line of the page
            exec(compile("\n" * line + snippet[2], str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.name)
def test_every_python_snippet_of_a_page_about_a_library_runs_as_one_program(page: Path, tmp_path):
    """In its own process: Django can be configured once, and SQLAlchemy looks names up in a module."""
    snippets = [body for kind, body in FENCED.findall(page.read_text(encoding="utf-8")) if kind == "python"]
    (tmp_path / "page.py").write_text("\n\n".join(snippets), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [sys.executable, "page.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def table(page: str, first_heading: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this heading."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {first_heading} |"):
            next(lines)
            break
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


# docs/reference/jobs.md -------------------------------------------------------------------------------------

YEARS = "1970 to 9999"
LENGTH = f"{bounds.MAX_DURATION // DAY} days"
COUNT = str(bounds.MAX_COUNT)
MEBIBYTE, KIBIBYTE = 1 << 20, 1 << 10

BOUNDS = {
    "type": "a name",
    "payload": f"{bounds.MAX_PAYLOAD_BYTES // MEBIBYTE} MiB encoded (a client may allow up to "
    f"{bounds.MAX_STORED_PAYLOAD_BYTES // MEBIBYTE} MiB; [larger data](http.md#large-payloads) is passed by its "
    f"address), {bounds.MAX_DEPTH} levels",
    "queue": "a name",
    "priority": f"{bounds.PRIORITIES[0]} to {bounds.PRIORITIES[-1]}",
    "run_at": YEARS,
    "delay": f"0 to {LENGTH}",
    "timeout": f"1 µs to {LENGTH}",
    "max_attempts": f"1 to {COUNT}",
    "retry": f"a [policy](../guides/retries.md#a-policy-for-one-job) with a text, delays up to {LENGTH}",
    "idempotency_key": "a text",
    "single_instance": f"`True`, or text up to {bounds.MAX_TEXT_BYTES} bytes",
    "unique": f'`"while_queued"`, `"while_open"`, 1 µs to {LENGTH}',
    "unique_for": f"{WHILE_QUEUED} to {LENGTH}",
    "domain": "a text",
    "limit_key": "a text",
    "offset": f"0 to {2**63 - 1}, with a domain",
    "name": "a text",
    "meta": f"{bounds.MAX_META_BYTES // KIBIBYTE} KiB encoded, {bounds.MAX_DEPTH} levels; "
    "keys are texts, `holdfast.` is reserved",
    "webhook": f"an http or https URL, {bounds.MAX_URL_CHARACTERS} characters",
    "id": "a name",
    "created_at": YEARS,
    "requested_run_at": YEARS,
    "attempts": "0 to `max_attempts`",
    "crashes": f"0 to {COUNT}",
    "max_crashes": f"1 to {COUNT}, or none",
    "signature": "`<keyId>:<signature>`",
    "state": ", ".join(State),
    "last_error": f"{bounds.MAX_ERROR_CHARACTERS} characters, the middle left out",
    "failed_at": YEARS,
    "dead_reason": f"{bounds.MAX_REASON_CHARACTERS} characters, the middle left out",
    "dead_at": YEARS,
    "result": f"{bounds.MAX_STORED_PAYLOAD_BYTES // MEBIBYTE} MiB",
}

# Fields that the client sets have no default in code, or None.
SET_BY_CLIENT = {
    "payload": "`null`",
    "id": "a UUIDv7",
    "created_at": "the client's now",
    "requested_run_at": "`run_at`, or `created_at` + `delay`",
    "max_attempts": "[see above](#attempts)",
}


def default_of(name: str) -> str:
    if name in SET_BY_CLIENT:
        return SET_BY_CLIENT[name]
    described = [*fields(JobRequest), *msgspec.structs.fields(JobRecord)]
    [field, *_] = [field for field in described if field.name == name]
    if field.default_factory not in {MISSING, msgspec.NODEFAULT}:
        return f"`{json.dumps(field.default_factory())}`"
    if field.default in {MISSING, msgspec.NODEFAULT}:
        return "required"
    return "none" if field.default is None else f"`{json.dumps(field.default)}`"


def test_the_table_of_job_fields_matches_the_code():
    requested, stored = {field.name for field in fields(JobRequest)}, set(JobRecord.__struct_fields__)
    table_rows = {
        row[0].strip("`"): (bool(row[1]), bool(row[2]), row[3], row[4]) for row in table("reference/jobs.md", "field")
    }
    assert table_rows == {
        name: (name in requested, name in stored, default_of(name), BOUNDS[name]) for name in requested | stored
    }


def test_the_page_defines_names_and_texts():
    page = " ".join((DOCS / "reference/jobs.md").read_text(encoding="utf-8").split())
    assert f"at most {bounds.MAX_TEXT_BYTES} bytes" in page
    assert f"1 to {bounds.MAX_NAME_CHARACTERS} of the characters" in page


# docs/reference/worker.md -----------------------------------------------------------------------------------

COMPUTED_DEFAULTS = {
    "queues": "those of the app's handlers; without an app, `default`",
    "processes": "one for each core",
    "limits": "none",
    "queue_limits": "none",
    "name": "host, process id and a random part",
}


def option_default(field: Field[object]) -> str:
    if field.name in COMPUTED_DEFAULTS:
        return COMPUTED_DEFAULTS[field.name]
    if field.default is None:
        return "none"
    return f"`{duration.format_exact(field.default) if isinstance(field.default, timedelta) else field.default}`"


def test_the_table_of_worker_options_matches_the_code():
    table_rows = [(row[0].strip("`"), row[1]) for row in table("reference/worker.md", "option")]
    assert table_rows == [(field.name, option_default(field)) for field in fields(WorkerOptions)]


def test_the_table_of_limits_matches_the_code():
    names = [row[0].strip("`") for row in table("reference/worker.md", "limit")]
    assert names == [field.name for field in fields(Limits)]
    assert Limits() == Limits(**dict.fromkeys(names))


def test_the_page_has_the_numbers_of_the_worker():
    page = " ".join((DOCS / "explanation/worker.md").read_text(encoding="utf-8").split())
    seconds = WorkerOptions().lease_for / SECOND / 3
    assert f"every third of the lease ({seconds:.0f} s)" in page
    delay, batch = settler.MAX_DELAY_SECONDS * 1000, settler.MAX_BATCH_SETTLEMENTS
    assert f"for at most {delay:.0f} ms, and a batch has at most {batch}." in page
    assert f"reserves nothing while {settler.MAX_UNSETTLED_RUNS} settlements wait." in page
    child, parent = dispatch.PREFETCH_SECONDS * 1000, dispatch.BUFFER_SECONDS * 1000
    assert f"up to {child:.0f} ms of short jobs (at most {dispatch.MAX_PREFETCH_JOBS}) wait in a child" in page
    assert f"and up to {parent:.0f} ms (at most {dispatch.MAX_BUFFERED_JOBS}) in the parent" in page
    assert f"tries again every {heartbeat.RETRY_SECONDS} s" in page


# docs/reference/spark.md ------------------------------------------------------------------------------------


def test_the_tables_of_spark_options_match_the_code():
    from holdfast.spark.datasource import options

    assert [row[0].strip("`") for row in table("reference/spark.md", "option of the sink")] == list(
        options.SINK_OPTIONS
    )
    assert [row[0].strip("`") for row in table("reference/spark.md", "option of a source")] == [
        name for name in dict.fromkeys((*options.SOURCE_OPTIONS["jobs"], *options.STREAM_OPTIONS)) if name != "path"
    ]


def test_the_table_of_arguments_of_run_matches_the_code():
    from holdfast.spark import run

    names = [row[0].strip("`") for row in table("reference/spark.md", "argument of `run`")]
    assert names == list(inspect.signature(run).parameters)


# docs/reference/envelope.md ---------------------------------------------------------------------------------


def test_the_table_of_envelope_fields_matches_the_code():
    rows = [(row[0].strip("`"), bool(row[3])) for row in table("reference/envelope.md", "field")]
    signed = _Identity.__struct_encode_fields__
    assert rows == [(name, name in signed) for name in _Envelope.__struct_encode_fields__]


def test_the_table_of_status_fields_matches_the_code():
    rows = [row[0].strip("`") for row in table("reference/envelope.md", "field of `status`")]
    assert tuple(rows) == _Status.__struct_encode_fields__


def vectors() -> dict[str, list[dict[str, str]]]:
    [block] = [
        body for kind, body in FENCED.findall((DOCS / "reference/envelope.md").read_text("utf-8")) if kind == "json"
    ]
    return json.loads(block)


@pytest.mark.parametrize("vector", vectors()["accepted"], ids=lambda vector: vector["what"])
def test_a_vector_has_the_envelope_and_the_identity_of_the_page(vector: dict[str, str]):
    job, space = from_envelope(vector.get("given", vector["envelope"]).encode())
    assert to_envelope(job, space=space) == vector["envelope"].encode()
    assert from_envelope(vector["envelope"].encode()) == (job, space)
    identity = identity_bytes(job, space=space)
    assert hashlib.sha256(identity).hexdigest() == vector["sha256"]


@pytest.mark.parametrize("vector", vectors()["refused"], ids=lambda vector: vector["field"])
def test_a_refused_vector_names_the_field_of_the_page(vector: dict[str, str]):
    with pytest.raises(InvalidInput) as refusal:
        from_envelope(vector["given"].encode())
    assert refusal.value.field == vector["field"]
