"""What does a long history of a domain cost? A domain with 1,000,000 processed offsets beside one with 100.

Compared are the rate of calls, what the store keeps of the ended offsets, and the memory of a process that works on the
domain. The server of PostgreSQL keeps nothing of a domain in memory but the pages of its tables.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
from msgspec.structs import replace

from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.jobs import FILL_BATCH, QUEUE, make_records
from benchmarks.processes import run_timed
from holdfast import connect
from holdfast.driver import MINUTE, Ack, Store
from holdfast.drivers.requests import Cancel

FEW = 100
OFFSETS = 300  # of one round, each with an enqueue, a reserve and an ack
ROUNDS = 5
MEBIBYTE = 1 << 20
STORED_SQLITE = """
SELECT count(*), sum(length(space) + length(queue) + length(domain) + 16) FROM holdfast_ended_offsets WHERE domain = ?
"""  # two integers of at most 8 bytes
STORED_POSTGRES = "SELECT count(*), sum(pg_column_size(r)) FROM holdfast.ended_offsets AS r WHERE domain = %s"


def measure(name: str, make_url: Callable[[], str], many: int) -> Iterator[Comparison]:
    url = make_url()
    position = {"few": FEW, "many": many}
    question = f"in a domain after {many:,} processed offsets / after {FEW}"
    with connect(url) as store:
        for domain, count in position.items():
            _end_offsets(store, domain, count)
        _vacuum(url)

        def process(domain: str) -> float:
            started = time.perf_counter()
            process_offsets(store, domain, position[domain])
            position[domain] += OFFSETS
            return time.perf_counter() - started

        yield compare_throughput(
            f"{name}: enqueue, reserve and ack {question}",
            jobs=OFFSETS,
            rounds=ROUNDS,
            ours=lambda: process("many"),
            other=lambda: process("few"),
            target=0.9,
        )
    yield _compare_sizes(f"{name}: stored bytes of ended offsets {question}", *_stored(url))
    yield _compare_sizes(
        f"{name}: largest memory of a process that works {question}",
        *(
            (run_timed("domain_history", "memory", url, domain, position[domain]), "with the driver")
            for domain in ("many", "few")
        ),
    )


def process_offsets(store: Store, domain: str, first: int) -> None:
    """Enqueue, reserve and ack the next offsets of a domain, one at a time."""
    for offset in range(first, first + OFFSETS):
        [record] = make_records(1)
        store.enqueue([replace(record, domain=domain, offset=offset)])
        [reservation] = store.reserve([QUEUE], limit=1, lease_for=MINUTE)
        store.settle([Ack(reservation.lease)])


def _end_offsets(store: Store, domain: str, count: int) -> None:
    """End the offsets from 0 on. Cancelled jobs have ended, too, and by the thousand in one call."""
    for start in range(0, count, FILL_BATCH):
        records = make_records(min(FILL_BATCH, count - start))
        store.enqueue([replace(one, domain=domain, offset=offset) for offset, one in enumerate(records, start)])
        store.do(Cancel(job_ids=[one.id for one in records]))


def _vacuum(url: str) -> None:
    """Remove the dead rows of PostgreSQL, as autovacuum does every minute: most of a long history is older.

    Until then, a call in the domain passes over their index entries: a third of a call after 1,000,000 in two minutes.
    """
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM")


Size = tuple[float, str]  # bytes, and what to say about them


def _compare_sizes(question: str, ours: Size, other: Size) -> Comparison:
    return Comparison(
        question=question,
        ratio=ours[0] / other[0],
        target=1.1,
        at_least=False,
        ours=_describe(*ours),
        other=_describe(*other),
    )


def _describe(size: float, text: str) -> str:
    return f"{size / MEBIBYTE:.1f} MiB {text}" if size > MEBIBYTE else f"{size:,.0f} bytes {text}"


def _stored(url: str) -> list[Size]:
    """Return what the store keeps of the ended offsets of the domain with many, and of the one with few."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            rows = [file.execute(STORED_SQLITE, (domain,)).fetchone() for domain in ("many", "few")]
    else:
        with psycopg.connect(url) as connection:
            rows = [connection.execute(STORED_POSTGRES, (domain,)).fetchone() for domain in ("many", "few")]
    return [(float(size), f"in {count:,} rows") for count, size in rows]


def memory(url: str, domain: str, first: str) -> None:
    """Print the largest memory of this process, in bytes, after it has processed offsets of a domain."""
    with connect(url) as store:
        process_offsets(store, domain, int(first))
    [line] = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(line.split()[1]) << 10)


if __name__ == "__main__":
    {"memory": memory}[sys.argv[1]](*sys.argv[2:])
