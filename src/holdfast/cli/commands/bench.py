"""``holdfast bench``: how fast a store is on this machine, and how much a worker costs on top of its driver."""

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

from holdfast.cli.command import Command
from holdfast.cli.output import Column, ProgressUpdate
from holdfast.cli.parameters import DURATION
from holdfast.cli.session import CommandFailed, ExitCode, Session, pass_session
from holdfast.cli.store_benchmark import BenchmarkFailed, Latency, StoreBenchmark, Throughput
from holdfast.connect import connect
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.contract import Store
from holdfast.errors import Unsupported
from holdfast.model import duration

LOOP_BATCH_SIZES = (1, 100, 1000)
TIME_SLICES = 8  # one for each of six measurements, and two for latency
MIN_LENGTH = timedelta(seconds=1)


@click.command(cls=Command)
@click.option(
    "--jobs", type=click.IntRange(10, 1_000_000), default=5000, show_default=True, help="Jobs per measurement."
)
@click.option("--processes", type=click.IntRange(1, 1024), help="Size of the larger worker; by default one per core.")
@click.option(
    "--for", "length", type=DURATION, default="16s", show_default=True, help="Limit for all measurements together."
)
@click.option("--json", "as_json", is_flag=True, help="JSON: throughput and latency.")
@pass_session
def bench(session: Session, *, jobs: int, processes: int | None, length: timedelta, as_json: bool) -> None:
    """Measure a store: the driver, and a worker.

    The store is a temporary SQLite file, whatever holdfast.toml and HOLDFAST_URL say. With --url or --store it is that
    store, in a new space bench-... whose jobs and ledger are removed at the end. Other jobs are not touched, but they
    share the machine.
    """
    if "space" in session.given:
        raise click.UsageError("--space: bench always creates its own space")
    if length < MIN_LENGTH:
        raise click.UsageError(
            f"--for: wanted {duration.format_exact(MIN_LENGTH)} at least, got {duration.format_exact(length)}"
        )
    processes = processes or os.cpu_count() or 1
    space = f"bench-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        given = session.url if session.given_url else None
        url = given or stack.enter_context(_temporary_store())
        store = stack.enter_context(connect(url, space=space))
        _check_features(store)
        max_seconds = length.total_seconds() / TIME_SLICES
        benchmark = StoreBenchmark(store, url=url, space=space, jobs=jobs, max_seconds=max_seconds)
        try:
            throughputs, latency = _measure(session, benchmark, store, processes)
        except BenchmarkFailed as error:
            raise CommandFailed(ExitCode.FAILED, str(error)) from error
        finally:
            removed = _remove_all(session, benchmark, space) if given else None
        capabilities = store.capabilities
    best_loop = max((one.per_second for one in throughputs if one.kind == "loop"), default=0.0)
    no_worker = capabilities.gaps.get(Feature.PROCESSES)
    if as_json:
        session.output.print_json(
            {
                "driver": capabilities.driver,
                "durability": capabilities.durability.name.lower(),
                "jobs": jobs,
                "throughput": [_throughput_to_json(one, best_loop) for one in throughputs],
                "latency": _latency_to_json(latency),
                "no_worker": no_worker,
                "space": space if given else None,
                "removed": removed,
            }
        )
        return
    where = f"space {space}" if given else "a temporary file"
    durability = capabilities.durability.name.lower()
    session.output.print_line(
        f"{capabilities.driver} ({durability}), {jobs:,} jobs in {where}; ratio: to the fastest driver loop"
    )
    columns = [
        Column(title="measurement", truncate=True),
        *(Column(title=title, align_right=True) for title in ("jobs", "jobs/s", "ratio")),
    ]
    session.output.print_table(columns, [_row(one, best_loop) for one in throughputs])
    if latency is not None:
        p50, p99 = (f"{latency.percentile(share) * 1000:.1f} ms" for share in (0.5, 0.99))
        session.output.print_line(
            f"enqueue to start in an idle worker: p50 {p50}, p99 {p99} of {len(latency.seconds)} jobs"
        )
    if no_worker is not None:
        session.output.print_line(f"no worker was measured: it needs a store that processes share, and {no_worker}")


def _remove_all(session: Session, benchmark: StoreBenchmark, space: str) -> int:
    """Remove the jobs of the benchmark and report it, whether the measurements succeeded or not."""
    removed = benchmark.remove_all()
    session.output.print_note(f"removed from the store: {removed:,} jobs of the space {space}, and their ledger")
    return removed


def _measure(
    session: Session, benchmark: StoreBenchmark, store: Store, processes: int
) -> tuple[list[Throughput], Latency | None]:
    """Run every measurement that the store supports, with a progress bar."""
    measurements: list[Callable[[], Throughput]] = [
        partial(benchmark.measure_enqueue, "filled"),
        *(partial(benchmark.measure_loop, batch_size) for batch_size in LOOP_BATCH_SIZES),
    ]
    has_workers = store.capabilities.has(Feature.PROCESSES)
    if has_workers:
        measurements += [partial(benchmark.measure_worker, number) for number in sorted({1, processes})]
    total = len(measurements) + (1 if has_workers else 0)
    with session.output.progress_bar("measure", total) as update:
        throughputs = list(_run_each(measurements, update, total))
        latency = benchmark.measure_latency() if has_workers else None
    return throughputs, latency


def _run_each(measurements: list[Callable[[], Throughput]], update: ProgressUpdate, total: int) -> Iterator[Throughput]:
    for done, measure in enumerate(measurements, start=1):
        yield measure()
        update(done, total)


@contextmanager
def _temporary_store() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        yield f"sqlite:///{quote(str(Path(folder, 'bench.db')))}"


def _check_features(store: Store) -> None:
    """Raise ``Unsupported`` unless the store has spaces, which isolate the jobs, and a ledger, which times them."""
    for feature in (Feature.SPACES, Feature.LEDGER):
        gap = store.capabilities.gaps.get(feature)
        if gap is not None:
            raise Unsupported(store.capabilities.driver, "bench", gap)


def _row(one: Throughput, best_loop: float) -> list[str]:
    match one.kind:
        case "enqueue":
            name = f"enqueue, batches of {one.size:,}"
        case "loop":
            name = f"driver loop, reserve {one.size:,} and ack {one.size:,}"
        case "worker":
            name = f"worker, {one.size} process{'' if one.size == 1 else 'es'}"
    return [name, f"{one.jobs:,}", f"{one.per_second:,.0f}", _ratio(one, best_loop)]


def _ratio(one: Throughput, best_loop: float) -> str:
    """The ratio to the fastest driver loop; empty for enqueue, which is a different operation."""
    return "" if one.kind == "enqueue" or not best_loop else f"{one.per_second / best_loop:.2f}"


def _throughput_to_json(one: Throughput, best_loop: float) -> dict[str, object]:
    ratio = _ratio(one, best_loop)
    return {
        "kind": one.kind,
        "size": one.size,
        "jobs": one.jobs,
        "seconds": round(one.seconds, 6),
        "per_second": round(one.per_second, 1),
        "ratio": float(ratio) if ratio else None,
    }


def _latency_to_json(latency: Latency | None) -> dict[str, object] | None:
    if latency is None:
        return None
    return {"jobs": len(latency.seconds), "p50": latency.percentile(0.5), "p99": latency.percentile(0.99)}
