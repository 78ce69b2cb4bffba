"""The HTTP service under thousands of requests that are made from its OpenAPI document."""

from __future__ import annotations

from pathlib import Path

from holdfast.settings import Settings
from holdfast.testing.servers.postgres import PostgresServer
from tests.service.http_service import running_service, sqlite_url
from tests.service.openapi_cases import OpenApiCases
from tests.service.openapi_journeys import SUCCESSES, run_journeys
from tests.webhook_receiver import receiving


def run_http_fuzz(folder: Path, scale: float) -> str:
    """Run it on SQLite and on PostgreSQL; return a summary."""
    with PostgresServer() as server:
        urls = {"SQLite": sqlite_url(folder), "PostgreSQL": server.create_database("fuzz")}
        return "; ".join(f"{name}: {_run(url, folder / name, scale)}" for name, url in urls.items())


def _run(url: str, folder: Path, scale: float) -> str:
    counts = {"operations": int(25 * scale), "links": int(60 * scale), "journeys": int(100 * scale)}
    counts = {name: max(5, count) for name, count in counts.items()}
    with receiving() as receiver:
        settings = Settings(artifacts=str(folder), webhooks=receiver.settings)
        with running_service(url, settings) as service:
            cases = OpenApiCases(service.url, derandomize=False)
            cases.run_operations(counts["operations"])
            alone = cases.answers.total()
            cases.run_links(counts["links"])
            linked = cases.answers.total() - alone
            run_journeys(cases, counts["journeys"], receiver_url=receiver.url)
    journeys = cases.answers.total() - alone - linked
    if scale >= 1:
        never = [one for one in SUCCESSES.items() if not cases.answers[one]]
        assert never == [], f"of {dict(cases.answers)}"
    successes = sum(count for (_, status), count in cases.answers.items() if status < 400)
    return (
        f"{alone:,} requests of {len(cases.operations)} operations, {linked:,} that follow links and {journeys:,} of "
        f"journeys, {successes:,} of all successful: no 500, every answer as the document describes it"
    )
