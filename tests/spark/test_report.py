"""The report page, and the commands that make it."""

import json
import re
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from holdfast import Client, JobRequest
from holdfast.cli.root import root
from holdfast.clock import MINUTE
from holdfast.connect import connect
from holdfast.driver import ack, fail
from holdfast.spark.report.plots import Series, plot
from holdfast.spark.statements import query


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('report')}/jobs.db"
    with connect(url) as store:
        Client(store).enqueue([JobRequest(type="mail", queue="q") for _ in range(5)])
        for number, one in enumerate(store.reserve(["q"], limit=4, lease_for=MINUTE, worker="w")):
            if number:
                ack(store, one.lease)
            else:
                fail(store, one.lease, reason="bad & <b>worse</b>", error="550 no such user 'u1'")
    return url


@pytest.fixture
def run(spark):
    def run(*arguments, code=0):
        ran = CliRunner().invoke(root, [str(argument) for argument in arguments])
        assert ran.exit_code == code, (ran.stdout, ran.stderr)
        return ran

    return run


class BalancedParser(HTMLParser):
    """Asserts that every element is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = set()

    def handle_starttag(self, tag, _attrs):
        self.seen.add(tag)
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, _attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_store_becomes_a_history_a_certificate_and_a_page(run, url, tmp_path):
    folder, out = tmp_path / "history", tmp_path / "report.html"
    assert "no history at" in run("audit", "--history", folder, code=4).stderr
    added = json.loads(run("history", "sync", "--to", folder, "--url", url, "--json").stdout)
    assert (added["rows"], added["jobs"], added["waiting"]) == (4, 5, 1)
    assert "0 ledger rows" in run("history", "sync", "--to", folder, "--url", url).stdout
    certificate = json.loads(run("audit", "--history", folder, "--with-store", "--url", url, "--json").stdout)
    assert certificate["holds"]
    assert certificate["states"] == {"dead": 1, "done": 3, "waiting": 1}
    assert (certificate["first_position"], certificate["position"]) == (0, 4)
    kept = tmp_path / "certificate.json"
    kept.write_text(json.dumps({**certificate, "commit": {**certificate["commit"], "number": 9}}))
    assert "removed: the newest commit is" in run("audit", "--history", folder, "--kept", kept, code=1).stdout
    kept.write_text("{}")
    assert "--kept: wanted the output of" in run("audit", "--history", folder, "--kept", kept, code=2).stderr
    assert "need --history" in run("audit", "--with-store", "--url", url, code=2).stderr
    output = run("report", "--history", folder, "--out", out, "--title", "Mail & more").stdout
    assert "5 jobs, every law held" in output
    page = out.read_text(encoding="utf-8")
    parser = BalancedParser()
    parser.feed(page)
    assert parser.open == []
    assert "script" not in parser.seen
    assert not re.search(r"(src|href)=|https?://|url\(|@import", page)
    assert page.count("<svg") == 7
    assert "<title>Mail &amp; more</title>" in page
    assert "bad &amp; &lt;b&gt;worse&lt;/b&gt;" in page
    assert "every job seen is done, dead, cancelled or waiting" in page


def test_a_broken_store_gets_no_certificate(run, url, tmp_path):
    import shutil
    import sqlite3

    broken = tmp_path / "broken.db"
    shutil.copy(url.removeprefix("sqlite:///"), broken)
    with sqlite3.connect(broken) as database:
        database.execute(
            "UPDATE holdfast_ledger SET ended_at = reserved_at - 1 WHERE seq = (SELECT max(seq) FROM holdfast_ledger)"
        )
    database.close()
    ran = run("audit", "--url", f"sqlite:///{broken}", code=1)
    assert ran.stdout.startswith("NO CERTIFICATE\n")
    assert re.search(r"\n +1  overlap ", ran.stdout)
    assert "reserved_at 20" in ran.stdout
    assert "1 violation" in ran.stderr


def test_a_last_attempt_that_fails_is_dead_and_not_retried(spark):
    at = "timestamp_micros(5) as ended_at, timestamp_micros(1) as reserved_at, timestamp_micros(1) as available_at"
    leases = spark.sql(
        f"""select {at}, cast(null as timestamp) as started_at, 1 as fence, 'w' as worker, ending, state
              from values ('retried', 'dead'), ('retried', 'ready'), ('failed', 'dead'), ('expired', 'dead')
                as t (ending, state)"""
    )
    jobs = spark.sql("select timestamp_micros(1) as enqueued_at, timestamp_micros(1) as created_at")
    [row] = query(spark, "report_buckets", leases=leases, jobs=jobs, start="0L", step="10L", last="0L").collect()
    assert (row["retried"], row["expired"], row["dead"]) == (1, 0, 3)


def test_plots_have_gaps_round_grid_lines_and_can_be_empty():
    labels = ["a", "b", "c", "d"]
    svg = plot([Series(name="n", colour=1, values=[1, 2, None, 37])], labels=labels, format_value="{:g}".format)
    assert re.findall(r'text-anchor="end">([0-9.]+)<', svg) == ["0", "10", "20", "30", "40"]
    assert (svg.count("<polyline"), svg.count("<circle")) == (1, 1)
    assert "<svg" in plot([Series(name="n", colour=1, values=[], shape="bar")], labels=[], format_value=str)
