"""Every error that Holdfast raises, or returns as the answer for one item of a batch.

    HoldfastError
    ├── InvalidInput (ValueError)      an invalid argument: what was wanted, what was got
    │   └── PayloadError               a payload, result or meta that cannot be stored or read
    │       └── PayloadTooLarge        a payload, result or meta with too many bytes
    ├── LeaseError                     an extend or settlement was refused; nothing changed
    │   ├── JobNotInflight             the job is not leased
    │   ├── LeaseMismatch              the job is leased under another token
    │   ├── LeaseExpired               the lease has expired
    │   └── WriteRefused               a write with an ack or enqueue found another version
    ├── OrderingError                  a call of a ``WorkLease`` was refused; nothing changed
    │   ├── BacklogOrderingError       another offset is the head of the backlog
    │   ├── TokenMismatchError         the domain is leased under another token
    │   ├── LeaseNotFoundError         the domain has no lease
    │   └── DomainFull                 the offsets of the domain do not fit its entry
    ├── StoreError                     the store could not execute the call
    │   ├── StoreBusy                  locked for too long; nothing changed, try again
    │   ├── StoreUnavailable           the store cannot be reached or used now
    │   │   └── StoreMoved             the SQLite file is no longer where it was opened
    │   ├── StoreFull                  too little free disk space for new jobs
    │   ├── StoreClosed                the store was closed before the call
    │   └── SchemaMismatch             this version does not know the tables
    ├── EnqueueConflict                a known key or id with another payload
    ├── ArtifactError                  an artifact was refused; nothing changed
    │   ├── ArtifactExists             the attempt has another artifact with this name
    │   ├── ArtifactMissing            the attempt has no artifact with this name
    │   └── ArtifactQuota              the artifacts of the task or of the space are too many or too large
    ├── JobNotFound (LookupError)      the space has no such job
    ├── ScheduleNotFound (LookupError) the space has no such schedule
    ├── ScheduleConflict               schedulers kept changing the schedule; nothing changed
    ├── JobNotDone                     the job is not done, so it has no result
    ├── ContextClosed                  progress or a checkpoint from outside the attempt
    ├── StaleFence                     a fenced write came after one of a later attempt
    ├── WaitTimeout (TimeoutError)     the job did not end within the timeout
    ├── ConnectError                   no driver can open the URL
    ├── CallerClockRefused             ``now`` for a store that reads its own clock
    ├── LedgerTrimmed                  the rows after this cursor were removed
    ├── SpaceInUse                     a space with leases in flight is not removed
    ├── HistoryConflict                another sync of this history was first; nothing added
    ├── ChildrenUnavailable            a worker cannot start child processes
    ├── SparkTaskFailed                a slot failed in all its tries
    ├── SparkUnavailable               Spark or Java cannot be started here
    ├── RunError                       a run of a DataFrame failed; has the frames so far
    │   ├── TooManyDead                stopped: too many dead letters
    │   └── OutcomesTrimmed            the store no longer has the jobs of some rows
    ├── RequestRefused                 a guarded HTTP request is not allowed; nothing was sent
    ├── RequestFailed                  a guarded HTTP request got no whole answer in time
    └── Unsupported                    the driver does not offer it (see ``capabilities``)

``UnknownTypeWarning`` is a warning: a job was enqueued, but the app has no handler for its type.

Each error carries its facts as attributes, so that no caller parses a message. All of them survive pickling.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # model imports errors; this import is for type checkers only
    from holdfast.model.lease import Enqueued

MAX_SHOWN_CHARACTERS = 200  # of a refused value: enough to recognise it, too few to flood a log


class HoldfastError(Exception):
    """The root of every error of this package."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild from the facts: the default would call ``__init__`` with the message alone."""
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[HoldfastError], args: tuple[object, ...], facts: dict[str, object]) -> HoldfastError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


def _shorten(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return text
    return f"{text[:MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"


class InvalidInput(HoldfastError, ValueError):
    """``field`` should have been ``wanted``; it was ``got`` (shortened if it is long)."""

    def __init__(self, field: str, *, wanted: str, got: object) -> None:
        self.field = field
        self.wanted = wanted
        self.got = _shorten(got if isinstance(got, str) and got else repr(got))
        super().__init__(f"{field}: wanted {wanted}, got {self.got}")


class PayloadError(InvalidInput):
    """A value that the codec cannot encode, or bytes that it cannot decode."""


class PayloadTooLarge(PayloadError):
    """A value with more bytes than allowed."""


class LeaseError(HoldfastError):
    """The call was refused and nothing was changed; ``job_id`` says for which job."""

    def __init__(self, job_id: str, message: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id}: {message}")


class JobNotInflight(LeaseError):
    """The job is not in flight: it is in ``state``, or unknown to this space if ``state`` is None."""

    def __init__(self, job_id: str, state: str | None) -> None:
        self.state = state
        super().__init__(job_id, f"wanted it in flight, it is {state or 'unknown to this space'}")


class LeaseMismatch(LeaseError):
    """The job is in flight under another token: another worker owns it now."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id, "wanted the token of its current lease, got another one")


class LeaseExpired(LeaseError):
    """The token is the current one, but the store's clock has passed ``expires_at``."""

    def __init__(self, job_id: str, *, expires_at: int, now: int) -> None:
        self.expires_at = expires_at
        self.now = now
        super().__init__(job_id, f"wanted a lease that is still valid, it expired {now - expires_at} µs ago")


class WriteRefused(LeaseError):
    """A registry write of an ack or an enqueue expects another version than the current one; nothing was changed.

    Of an enqueue, ``job_id`` is the first job of the call.
    """

    def __init__(self, job_id: str, *, kind: str, key: str) -> None:
        self.kind = kind
        self.key = key
        super().__init__(job_id, f"wanted to write {kind}/{key} in the same transaction, another version is there")


class OrderingError(HoldfastError):
    """The call was refused and nothing was changed; ``domain`` says for which domain."""

    def __init__(self, domain: str, message: str) -> None:
        self.domain = domain
        super().__init__(f"domain {domain}: {message}")


class BacklogOrderingError(OrderingError):
    """Nothing is in flight, and ``got`` is not the head of the backlog: ``expected`` must be acquired first."""

    def __init__(self, domain: str, expected: int, got: int) -> None:
        self.expected = expected
        self.got = got
        super().__init__(domain, f"wanted the head of the backlog, {expected}, got {got}")


class TokenMismatchError(OrderingError):
    """The domain is leased under another token: the caller no longer owns it."""

    def __init__(self, domain: str) -> None:
        super().__init__(domain, "wanted the token of its current lease, got another one")


class LeaseNotFoundError(OrderingError):
    """The domain has no lease that could end."""

    def __init__(self, domain: str) -> None:
        super().__init__(domain, "wanted an offset in flight, there is no lease")


class DomainFull(OrderingError):
    """The backlog, or the processed and failed offsets, have too many separate ranges: ``size`` bytes."""

    def __init__(self, domain: str, *, size: int, most: int) -> None:
        self.size = size
        self.most = most
        super().__init__(
            domain,
            f"wanted an entry of at most {most} bytes, got {size}: too many offsets that do not follow one another; "
            "process the backlog, or set a watermark",
        )


class StoreError(HoldfastError):
    """The store could not carry out the call."""


class StoreBusy(StoreError):
    """Other processes held the store for ``waited`` seconds. Nothing was changed: the call may be repeated."""

    def __init__(self, waited: float) -> None:
        self.waited = waited
        super().__init__(f"the store was busy for {waited:.1f} s; nothing was changed, try again")


class StoreUnavailable(StoreError):
    """The store cannot be reached or used now."""


class StoreMoved(StoreUnavailable):
    """The SQLite file was moved, deleted or replaced since it was opened. Nothing changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"wanted the SQLite file that was opened at {path}, it was moved, deleted or replaced since: "
            "put it back, or restart this process to use what is there now"
        )


class StoreFull(StoreError):
    """Free disk space is below the minimum that acks need, so new jobs are refused."""

    def __init__(self, *, free: int, floor: int) -> None:
        self.free = free
        self.floor = floor
        super().__init__(
            f"wanted at least {floor / 2**20:.1f} MiB of free disk, got {free / 2**20:.1f} MiB: new jobs are refused "
            "so that running ones can still be settled; free some space, or lower min_free_bytes"
        )


class StoreClosed(StoreError):
    """The driver was closed before this call."""

    def __init__(self) -> None:
        super().__init__("this driver was closed; connect() again")


class SchemaMismatch(StoreError):
    """This version of Holdfast cannot use the tables in the store."""


class EnqueueConflict(HoldfastError):
    """Job ``job_id`` was enqueued under ``key`` or ``offset`` with another payload, and stays as it was.

    ``answers`` are the answers of the whole call, in order; every other job of the call was stored. If several jobs
    conflict, ``job_id``, ``key`` and ``offset`` belong to the first. Both are None if the id was known.
    """

    def __init__(
        self, job_id: str, key: str | None, answers: Sequence[Enqueued] = (), *, offset: int | None = None
    ) -> None:
        self.job_id = job_id
        self.key = key
        self.offset = offset
        self.answers = tuple(answers)
        names = [*([] if key is None else [f"key {key!r}"]), *([] if offset is None else [f"offset {offset}"])]
        under = " or ".join(names) or "its id"
        count = sum(answer.conflict for answer in answers)
        others = f" (the first of {count} conflicts in {len(answers)} jobs)" if count > 1 else ""
        super().__init__(f"job {job_id}: wanted the payload that {under} was first used with, got another{others}")


class ArtifactError(HoldfastError):
    """An artifact was refused, and nothing changed."""


class ArtifactExists(ArtifactError):
    """The attempt has uploaded an artifact ``name`` with other bytes. Artifacts are never overwritten."""

    def __init__(self, job_id: str, name: str) -> None:
        self.job_id = job_id
        self.name = name
        super().__init__(f"job {job_id}: wanted a new name, the attempt has an artifact {name!r} with other bytes")


class ArtifactMissing(ArtifactError, LookupError):
    """The attempt has uploaded no artifact ``name``."""

    def __init__(self, job_id: str, name: str) -> None:
        self.job_id = job_id
        self.name = name
        super().__init__(f"job {job_id}: wanted an artifact of this attempt, {name!r} was not uploaded")


class ArtifactQuota(ArtifactError):
    """One more artifact would exceed a limit of the ``owner``, a task or the space: at most ``most`` of ``unit``."""

    def __init__(self, owner: str, unit: str, most: int) -> None:
        self.owner = owner
        self.unit = unit
        self.most = most
        super().__init__(f"the artifacts of the {owner}: wanted at most {most} {unit}, got more")


class JobNotFound(HoldfastError, LookupError):
    """This space has no job ``job_id``: it was never enqueued here, or it was purged or trimmed."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id}: wanted a job of this space, there is none with that id")


class ScheduleNotFound(HoldfastError, LookupError):
    """This space has no schedule ``name``: nobody has put it, and no scheduler has declared it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"schedule {name}: wanted a schedule of this space, there is none with that name")


class ScheduleConflict(HoldfastError):
    """Schedulers changed the schedule ``name`` again and again. This call changed nothing, and may be repeated."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"schedule {name}: wanted to change it, schedulers changed it at the same time; try again")


class JobNotDone(HoldfastError):
    """Job ``job_id`` has no result: it is in ``state``.

    ``reason`` says why a job is dead, and ``error`` how its last failed attempt ended; the message has its first line.
    """

    def __init__(self, job_id: str, *, state: str, reason: str | None = None, error: str = "") -> None:
        self.job_id = job_id
        self.state = state
        self.reason = reason
        self.error = error
        why = f": {_shorten(reason)}" if reason else ""
        lines = error.strip().splitlines() or [""]
        line = lines[-1] if lines[0].startswith("Traceback") else lines[0]  # the line that names the exception
        cause = f"; last error: {_shorten(line)}" if line else ""
        super().__init__(f"job {job_id}: wanted it done, it is {state}{why}{cause}")


class ContextClosed(HoldfastError):
    """``ctx`` of this job was used after its attempt had ended, or by a process that the handler forked."""

    def __init__(self, job_id: str, reason: str) -> None:
        self.job_id = job_id
        self.reason = reason
        super().__init__(f"the context of job {job_id} cannot report: {reason}")


class StaleFence(HoldfastError):
    """A write to ``target`` with this ``fence`` was refused: a later attempt has written it, with the fence ``stored``.

    ``stored`` is None if the system that refused the write does not tell it.
    """

    def __init__(self, target: str, *, fence: int, stored: int | None = None) -> None:
        self.target = target
        self.fence = fence
        self.stored = stored
        got = "a larger one is stored" if stored is None else f"{stored} is stored"
        super().__init__(f"{target}: wanted to write with the largest fence, {fence}, but {got}")


class WaitTimeout(HoldfastError, TimeoutError):
    """Job ``job_id`` did not end within the timeout; it was last seen in ``state``."""

    def __init__(self, job_id: str, *, state: str) -> None:
        self.job_id = job_id
        self.state = state
        super().__init__(f"job {job_id}: wanted it to end within the timeout, it is {state}")


class ConnectError(HoldfastError):
    """No driver can open this URL; the message says what to write or to install instead."""


class CallerClockRefused(HoldfastError):
    """``now`` was passed to a store that decides about leases by its own clock."""

    def __init__(self) -> None:
        super().__init__(
            "wanted no now= (the store's own clock decides about leases), got one; "
            "tests and simulations may use connect(url, caller_clock=True)"
        )


class LedgerTrimmed(HoldfastError):
    """Retention has removed rows after ``cursor``: a reader that continued from it would skip them silently."""

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        super().__init__(
            f"the ledger was trimmed past cursor {cursor!r}; start again from after=None (the oldest row kept)"
        )


class SpaceInUse(HoldfastError):
    """The space ``space`` has ``leases`` jobs in flight, or more; nothing was removed."""

    def __init__(self, space: str, *, leases: int) -> None:
        self.space = space
        self.leases = leases
        super().__init__(
            f"space {space}: wanted no job in flight, got {leases}; stop its workers, or force the removal"
        )


class ChildrenUnavailable(HoldfastError):
    """A worker cannot start child processes, and has to be started again; the message says what to change."""


class SparkUnavailable(HoldfastError):
    """No Spark, or no Java, can be started on this machine; the message says what to install."""


class SparkTaskFailed(HoldfastError):
    """A Spark task that runs jobs failed in all its tries. Leases of its slot expire, and its jobs run again."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"a Spark task failed: {reason}")


class HistoryConflict(HoldfastError):
    """Another sync has written the next commit of a history. The next sync reads the same ledger rows again."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"commit {number} of the history was made by another sync; nothing was added")


class RunError(HoldfastError):
    """A run of a DataFrame did not end as wanted. ``result`` has the frames of the rows that have ended."""

    result: Any = None  # a ``RunResult``; None after pickling, because frames cannot be pickled

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the frames."""
        facts = {name: fact for name, fact in self.__dict__.items() if name != "result"}
        return _rebuild, (type(self), self.args, facts)


class TooManyDead(RunError):
    """A run was stopped because more of its rows became dead letters than ``max_dead_ratio`` allows."""

    def __init__(self, dead: int, ended: int, most: float) -> None:
        self.dead, self.ended, self.most = dead, ended, most
        super().__init__(f"wanted at most {most:.1%} of the rows to become dead letters, got {dead} of {ended} so far")


class OutcomesTrimmed(RunError):
    """Rows of a run ended earlier, and their jobs have been removed since. The rows were not run again."""

    def __init__(self, run: str, rows: int) -> None:
        self.run, self.rows = run, rows
        super().__init__(
            f"wanted the outcome of every row of the run {run}, got none for {rows} rows: they ended earlier, and "
            "their jobs are no longer kept (keep_ended); under another name of the run they run again"
        )


class RequestRefused(HoldfastError):
    """A rule does not allow this HTTP request. Nothing was sent; ``reason`` names the rule."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class RequestFailed(HoldfastError):
    """An HTTP request to ``authority`` (host and port) got no whole answer in time. Another try may succeed."""

    def __init__(self, authority: str, reason: str) -> None:
        self.authority = authority
        self.reason = reason
        super().__init__(f"{authority}: {reason}")


class Unsupported(HoldfastError):
    """The driver does not offer this feature."""

    def __init__(self, driver: str, feature: str, reason: str) -> None:
        self.driver = driver
        self.feature = feature
        self.reason = reason
        super().__init__(f"the {driver} driver does not offer {feature}: {reason}")


class UnknownTypeWarning(UserWarning):
    """A job was enqueued whose type has no handler in the app. It waits until a worker has one."""
