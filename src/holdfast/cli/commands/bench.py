"""``holdfast bench``: how quick a store is on this machine, and what a worker costs beside its driver."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import quote

import click

from holdfast.cli.measurement import Bench, BenchFailed, Latency, Throughput
from holdfast.cli.output import Column, Step
from holdfast.cli.parameters import LENGTH
from holdfast.cli.session import Code, Command, Session, Stop, pass_session
from holdfast.connect import connect
from holdfast.drivers.contract import Feature, Store
from holdfast.errors import Unsupported
from holdfast.model import duration

BATCHES = (1, 100, 1000)  # of the driver loop
PARTS = 8  # of the time: six measurements, and two for that of latency
SHORTEST = timedelta(seconds=1)


@click.command(cls=Command)
@click.option("--jobs", type=click.IntRange(10, 1_000_000), default=5000, show_default=True, help="In each queue.")
@click.option("--processes", type=click.IntRange(1, 1024), help="Of the larger worker; by default one for each core.")
@click.option("--for", "length", type=LENGTH, default="16s", show_default=True, help="The longest to measure, in all.")
@click.option("--json", "as_json", is_flag=True, help="JSON: throughput and latency.")
@pass_session
def bench(session: Session, *, jobs: int, processes: int | None, length: timedelta, as_json: bool) -> None:
    """Measure a store: the driver, and a worker.

    In a temporary SQLite file; with --url on the line (a URL in a file or a variable is not enough) in that store, in a
    space of its own, bench-..., whose jobs and ledger it removes at the end. Other jobs are not touched, but they share
    the machine.
    """
    if "space" in session.given:
        raise click.UsageError("--space: bench makes a space of its own")
    if length < SHORTEST:
        raise click.UsageError(
            f"--for: wanted {duration.format_exact(SHORTEST)} at least, got {duration.format_exact(length)}"
        )
    processes = processes or os.cpu_count() or 1
    space = f"bench-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        given = session.given.get("url")
        url = given or stack.enter_context(_temporary())
        store = stack.enter_context(connect(url, space=space))
        _check(store)
        measured = Bench(store, url=url, space=space, jobs=jobs, longest=length.total_seconds() / PARTS)
        try:
            found, latency = _measure(session, measured, store, processes)
        except BenchFailed as error:
            raise Stop(Code.WRONG, str(error)) from error
        finally:
            removed = _cleaned(session, measured, space) if given else None
        capabilities = store.capabilities
    best = max((one.per_second for one in found if one.kind == "loop"), default=0.0)
    alone = capabilities.gaps.get(Feature.PROCESSES)
    if as_json:
        session.screen.document(
            {
                "driver": capabilities.driver,
                "durability": capabilities.durability.name.lower(),
                "jobs": jobs,
                "throughput": [_as_dict(one, best) for one in found],
                "latency": _latency(latency),
                "no_worker": alone,
                "space": space if given else None,
                "removed": removed,
            }
        )
        return
    where = f"space {space}" if given else "a temporary file"
    durability = capabilities.durability.name.lower()
    session.screen.line(f"{capabilities.driver} ({durability}), {jobs:,} jobs in {where}; ratio: to the quickest loop")
    columns = [
        Column(title="what", cut=True),
        *(Column(title=title, right=True) for title in ("jobs", "jobs/s", "ratio")),
    ]
    session.screen.table(columns, [_row(one, best) for one in found])
    if latency is not None:
        p50, p99 = (f"{latency.percentile(share) * 1000:.1f} ms" for share in (0.5, 0.99))
        started = f"{len(latency.seconds)} jobs"
        session.screen.line(f"enqueue to start in an idle worker: p50 {p50}, p99 {p99} of {started}")
    if alone is not None:
        session.screen.line(f"no worker: it needs a store that processes share, and {alone}")


def _cleaned(session: Session, bench: Bench, space: str) -> int:
    """Leave nothing behind, and say so, however the measuring ended."""
    removed = bench.clean()
    session.screen.note(f"removed from the store: {removed:,} jobs of the space {space}, and their ledger")
    return removed


def _measure(session: Session, bench: Bench, store: Store, processes: int) -> tuple[list[Throughput], Latency | None]:
    """All that the store can do, with a bar that moves from one measurement to the next."""
    steps: list[Callable[[], Throughput]] = [
        partial(bench.enqueue, "filled"),
        *(partial(bench.loop, k) for k in BATCHES),
    ]
    workers = store.capabilities.has(Feature.PROCESSES)
    if workers:
        steps += [partial(bench.worker, number) for number in sorted({1, processes})]
    total = len(steps) + (1 if workers else 0)
    with session.screen.bar("measure", total) as step:
        found = list(_one_by_one(steps, step, total))
        latency = bench.idle() if workers else None
    return found, latency


def _one_by_one(steps: list[Callable[[], Throughput]], step: Step, total: int) -> Iterator[Throughput]:
    for done, measure in enumerate(steps, start=1):
        yield measure()
        step(done, total)


@contextmanager
def _temporary() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        yield f"sqlite:///{quote(str(Path(folder, 'bench.db')))}"


def _check(store: Store) -> None:
    """What keeps our jobs apart from others, and what we measure by."""
    for feature in (Feature.SPACES, Feature.LEDGER):
        gap = store.capabilities.gaps.get(feature)
        if gap is not None:
            raise Unsupported(store.capabilities.driver, "bench", gap)


def _row(one: Throughput, best: float) -> list[str]:
    match one.kind:
        case "enqueue":
            what = f"enqueue, {one.size:,} a batch"
        case "loop":
            what = f"driver loop, reserve {one.size:,} and ack {one.size:,}"
        case "worker":
            what = f"worker, {one.size} process{'' if one.size == 1 else 'es'}"
    return [what, f"{one.jobs:,}", f"{one.per_second:,.0f}", _ratio(one, best)]


def _ratio(one: Throughput, best: float) -> str:
    """To the quickest driver loop; enqueueing is another thing."""
    return "" if one.kind == "enqueue" or not best else f"{one.per_second / best:.2f}"


def _as_dict(one: Throughput, best: float) -> dict[str, object]:
    ratio = _ratio(one, best)
    return {
        "kind": one.kind,
        "size": one.size,
        "jobs": one.jobs,
        "seconds": round(one.seconds, 6),
        "per_second": round(one.per_second, 1),
        "ratio": float(ratio) if ratio else None,
    }


def _latency(latency: Latency | None) -> dict[str, object] | None:
    if latency is None:
        return None
    return {"jobs": len(latency.seconds), "p50": latency.percentile(0.5), "p99": latency.percentile(0.99)}
