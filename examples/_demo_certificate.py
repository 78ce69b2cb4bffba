"""The proof: what the demo claims, checked in plain Python against the ledger and against what each side was told."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast import Enqueued
from holdfast.model.ledger import Ending, LedgerRow

LOST = "lost"  # a worker's word for a settlement that was refused
FAILED = {"retried", "dead", "rejected"}  # its words for an attempt that failed: what comes of the job is the store's
WORDS = {
    Ending.ACKED: "acked",
    Ending.RETRIED: "failed",
    Ending.FAILED: "failed",
    Ending.RELEASED: "released",
    Ending.EXPIRED: LOST,
    Ending.CANCELLED: "cancelled",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the producer and the workers were told, and the ledger that has to agree with it."""

    accepted: Sequence[tuple[str, str | None]]  # job id and domain, in the order in which they were accepted
    resent: Sequence[tuple[str, Enqueued]]  # the id a request got, and the answer when it was sent again
    ledger: Sequence[LedgerRow]
    lease_for: int
    told: Mapping[str, Mapping[str, int]]  # by worker, as the ledger knows it: how many attempts it says ended how


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One line of the certificate; it holds if nothing speaks against it."""

    text: str
    violations: list[str]

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.violations


def certify(evidence: Evidence) -> list[Claim]:
    """Every claim, with whatever speaks against it."""
    leases = sum(row.fence is not None for row in evidence.ledger)
    confirmed = sum(number for tally in evidence.told.values() for word, number in tally.items() if word != LOST)
    refused = sum(tally.get(LOST, 0) for tally in evidence.told.values())
    shelves = {domain for _, domain in evidence.accepted if domain is not None}
    claims: list[tuple[str, Callable[[Evidence], Iterator[str]]]] = [
        (f"{len(evidence.accepted):,} accepted jobs: every one ended, exactly once", ended_exactly_once),
        (f"{len(evidence.resent):,} requests sent again: no second job", duplicates_made_no_job),
        (f"{leases:,} leases: never two of one job at a time", leases_of_a_job_never_overlap),
        (f"{leases:,} fences: each larger than its job's last", fences_only_grow),
        (f"{leases:,} leases: none was taken away early", leases_end_on_time),
        (f"{len(shelves):,} domains: one job at a time, in order of arrival", domains_run_in_order),
        (f"{confirmed:,} settlements confirmed, {refused:,} late ones refused: so says the ledger", answers_were_true),
    ]
    return [Claim(text=text, violations=list(violations(evidence))) for text, violations in claims]


def ended_exactly_once(evidence: Evidence) -> Iterator[str]:
    """Every accepted job reached an end, and left it only where an operator requeued it."""
    ended = {job_id: False for job_id, _ in evidence.accepted}
    for row in evidence.ledger:
        if row.job_id not in ended:
            yield f"job {row.job_id} was {row.ending}, but never accepted"
            continue
        if ended[row.job_id] != (row.ending is Ending.REQUEUED):
            yield f"job {row.job_id} was {row.ending} {'after' if ended[row.job_id] else 'before'} its end"
        ended[row.job_id] = row.state is not None and row.state.ended
    yield from (f"job {job_id} has not ended" for job_id, has_ended in ended.items() if not has_ended)


def duplicates_made_no_job(evidence: Evidence) -> Iterator[str]:
    """A key sent again was answered with the job that existed; and no two requests share an id."""
    for job_id, answer in evidence.resent:
        if not answer.existed or answer.id != job_id:
            yield f"job {job_id} was sent again and answered with {answer.id} (existed: {answer.existed})"
    if len(dict(evidence.accepted)) < len(evidence.accepted):
        yield "two accepted requests got the same id"


def leases_of_a_job_never_overlap(evidence: Evidence) -> Iterator[str]:
    """A lease began when the one before it had ended, not earlier."""
    for rows in _leases(evidence, lambda row: row.job_id).values():
        yield from _overlaps(rows)


def fences_only_grow(evidence: Evidence) -> Iterator[str]:
    """In the order of the ledger, which is the order in which the leases ended; no number comes twice anywhere."""
    last: dict[str, int] = {}
    seen: set[int] = set()
    for row in evidence.ledger:
        if row.fence is None:
            continue
        if row.fence <= last.get(row.job_id, 0) or row.fence in seen:
            yield f"job {row.job_id}: fence {row.fence} came after {last.get(row.job_id, row.fence)}"
        last[row.job_id] = row.fence
        seen.add(row.fence)


def leases_end_on_time(evidence: Evidence) -> Iterator[str]:
    """Whoever lost a lease had had its full time, and whatever its heartbeats added."""
    for row in evidence.ledger:
        if row.ending is Ending.EXPIRED and row.reserved_at is not None:
            held_for = row.ended_at - row.reserved_at
            if held_for < evidence.lease_for:
                yield f"job {row.job_id} was expired {held_for} µs into a lease of {evidence.lease_for} µs"


def domains_run_in_order(evidence: Evidence) -> Iterator[str]:
    """Only the first job that has not ended may run; a requeued one goes to the end of its line."""
    lines: defaultdict[str, deque[str]] = defaultdict(deque)
    for job_id, domain in evidence.accepted:
        if domain is not None:
            lines[domain].append(job_id)
    for row in evidence.ledger:
        if row.domain is None:
            continue
        line = lines[row.domain]
        if row.ending is Ending.REQUEUED:
            line.append(row.job_id)
        elif not line or line[0] != row.job_id:
            yield f"{row.domain}: job {row.job_id} ran before {line[0] if line else 'it was in line'}"
        elif row.state is not None and row.state.ended:
            line.popleft()
    for rows in _leases(evidence, lambda row: row.domain).values():
        yield from _overlaps(rows)


def answers_were_true(evidence: Evidence) -> Iterator[str]:
    """What each worker says it was told is what the ledger has under its name; what it was refused, expired there."""
    written: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in evidence.ledger:
        if row.fence is not None:
            written[row.worker][WORDS[row.ending]] += 1
    for worker, tally in evidence.told.items():
        told: Counter[str] = Counter()
        for status, number in tally.items():
            told["failed" if status in FAILED else status] += number
        for word in sorted(told.keys() | written[worker].keys()):
            if told[word] != written[worker][word]:
                yield f"{worker} was told that {told[word]} attempts {word}, the ledger has {written[worker][word]}"


def _leases(evidence: Evidence, key: Callable[[LedgerRow], str | None]) -> dict[str, list[LedgerRow]]:
    """The leases by job or by domain, in the order in which they were given."""
    found: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in evidence.ledger:
        group = key(row)
        if row.fence is not None and group is not None:
            found[group].append(row)
    return {group: sorted(rows, key=lambda row: row.fence or 0) for group, rows in found.items()}


def _overlaps(rows: list[LedgerRow]) -> Iterator[str]:
    for earlier, later in pairwise(rows):
        if later.reserved_at is None or later.reserved_at < earlier.ended_at:
            yield (
                f"job {later.job_id}: its lease began {earlier.ended_at - (later.reserved_at or 0)} µs "
                f"before that of job {earlier.job_id} had ended"
            )
