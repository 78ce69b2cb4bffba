"""Does a domain with 1,000,000 processed offsets cost a work lease as much as one with 100?

Both sides acquire and end the next offsets of their domain, in the process and on SQLite, in turns. On SQLite a
watermark takes the place of most of the million calls.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.comparison import Comparison, compare_throughput
from holdfast import connect
from holdfast.drivers.requests import Read
from holdfast.ordering import Acquired, WorkLease
from holdfast.ordering.domain_entries import KIND, head_key

FEW, MANY = 100, 1_000_000
LOCAL_OFFSETS, STORED_OFFSETS = 20_000, 1_000
ROUNDS = 5


def measure(folder: Path) -> Iterator[Comparison]:
    local = Domains(WorkLease(max_retries=0))
    for name, count in (("few", FEW), ("many", MANY)):
        local.process(name, count)
    yield _compare("in the process", local, LOCAL_OFFSETS)
    with connect(f"sqlite:///{folder}/jobs.db") as store:
        lease = WorkLease(max_retries=0, store=store)
        stored = Domains(lease)
        stored.process("few", FEW)
        stored.next["many"] = lease.set_watermark("many", MANY)
        yield _compare("on SQLite", stored, STORED_OFFSETS)
        few, many = (
            len(entry.value or b"")
            for entry in store.do(Read(kind=KIND, keys=[head_key("few"), head_key("many")]))
            if entry
        )
    yield Comparison(
        question="Work lease on SQLite: bytes of a domain with 1,000,000 processed offsets / with 100",
        ratio=many / few,
        target=1.1,
        at_least=False,
        ours=f"{many} bytes",
        other=f"{few} bytes",
    )


class Domains:
    """Domains whose offsets are processed one after another."""

    def __init__(self, lease: WorkLease) -> None:
        self.lease = lease
        self.next: dict[str, int] = {}

    def process(self, domain: str, count: int) -> float:
        """Acquire and end the next offsets; return the seconds."""
        first = self.next.get(domain, 0)
        started = time.perf_counter()
        for offset in range(first, first + count):
            acquired = self.lease.try_acquire(domain, offset)
            assert isinstance(acquired, Acquired)
            self.lease.succeed(domain, acquired.token)
        self.next[domain] = first + count
        return time.perf_counter() - started


def _compare(where: str, domains: Domains, offsets: int) -> Comparison:
    return compare_throughput(
        f"Work lease {where}: offsets after 1,000,000 processed ones / after 100",
        jobs=offsets,
        rounds=ROUNDS,
        ours=lambda: domains.process("many", offsets),
        other=lambda: domains.process("few", offsets),
        target=0.8,
    )
