"""Errors carry their facts, survive pickling, and form the tree that is drawn above them."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from holdfast import errors
from holdfast.errors import (
    MAX_SHOWN_CHARACTERS,
    ArtifactError,
    ArtifactExists,
    ArtifactMissing,
    ArtifactQuota,
    BacklogOrderingError,
    CallerClockRefused,
    ChildrenUnavailable,
    ConnectError,
    ContextClosed,
    DomainFull,
    EnqueueConflict,
    HistoryConflict,
    HoldfastError,
    InvalidInput,
    JobNotDone,
    JobNotFound,
    JobNotInflight,
    LeaseError,
    LeaseExpired,
    LeaseMismatch,
    LeaseNotFoundError,
    LedgerTrimmed,
    OrderingError,
    OutcomesTrimmed,
    PayloadError,
    PayloadTooLarge,
    RequestFailed,
    RequestRefused,
    RunError,
    ScheduleConflict,
    ScheduleNotFound,
    SchemaMismatch,
    SpaceInUse,
    SparkTaskFailed,
    SparkUnavailable,
    StaleFence,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreMoved,
    StoreUnavailable,
    TokenMismatchError,
    TooManyDead,
    Unsupported,
    WaitTimeout,
    WriteRefused,
)
from holdfast.model.lease import Enqueued

ALL = [
    HoldfastError("something"),
    InvalidInput("priority", wanted="0 to 9", got=10),
    PayloadError("payload.a", wanted="a finite number", got="nan"),
    PayloadTooLarge("payload", wanted="at most 1 bytes", got="2 bytes"),
    LeaseError("j1", "refused"),
    ArtifactError("refused"),
    ArtifactExists("j1", "a.txt"),
    ArtifactMissing("j1", "a.txt"),
    ArtifactQuota("task", "bytes", 10),
    JobNotInflight("j1", "done"),
    JobNotInflight("j1", None),
    LeaseMismatch("j1"),
    LeaseExpired("j1", expires_at=5, now=9),
    WriteRefused("j1", kind="guard", key="k"),
    OrderingError("customer-7", "refused"),
    BacklogOrderingError("customer-7", expected=2, got=3),
    TokenMismatchError("customer-7"),
    LeaseNotFoundError("customer-7"),
    DomainFull("customer-7", size=70_000, most=65_536),
    StoreError("broken"),
    StoreBusy(1.5),
    StoreUnavailable("no answer"),
    StoreMoved("/data/jobs.db"),
    StoreFull(free=1 << 20, floor=64 << 20),
    StoreClosed(),
    SchemaMismatch("wanted 3, got 2"),
    ChildrenUnavailable("too many open files"),
    EnqueueConflict("j1", "order 17", [Enqueued(id="j1", existed=True, conflict=True)]),
    JobNotFound("j1"),
    ScheduleNotFound("daily"),
    ScheduleConflict("daily"),
    ContextClosed("j1", "the attempt has ended"),
    StaleFence("account 7", fence=8, stored=9),
    StaleFence("account 7", fence=8),
    JobNotDone("j1", state="dead", reason="bad payload", error="ValueError: 1"),
    WaitTimeout("j1", state="ready"),
    ConnectError("no such driver"),
    CallerClockRefused(),
    LedgerTrimmed("17"),
    SpaceInUse("shop", leases=3),
    HistoryConflict(7),
    SparkTaskFailed("ValueError: no"),
    SparkUnavailable("there is no Java"),
    RunError("stopped"),
    TooManyDead(40, 200, 0.1),
    OutcomesTrimmed("nightly", 5),
    RequestRefused("no pattern of allowed_urls matches https://example.org/"),
    RequestFailed("example.org", "timed out"),
    Unsupported("memory", "joined", "there is no transaction"),
]


def subclasses(cls: type) -> set[type]:
    return {cls}.union(*map(subclasses, cls.__subclasses__()))


def own() -> set[type]:
    return {cls for cls in subclasses(HoldfastError) if cls.__module__ == errors.__name__}


def test_every_class_has_an_example_here():
    assert {type(error) for error in ALL} == own()


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"])
def test_an_error_survives_pickling_with_its_facts(error: HoldfastError, again):
    back = again(error)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert back.args == error.args
    assert vars(back) == vars(error)


def drawn() -> dict[str, str]:
    """Each class in the drawing, with the class it hangs from."""
    parents: dict[str, str] = {}
    branch: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)([A-Z]\w+)", line)
        if found:
            depth = len(found[1]) // 4
            branch[depth:] = [found[2]]
            parents[found[2]] = branch[depth - 1] if depth else ""
    return parents


def test_the_tree_at_the_top_of_the_file_is_the_tree_of_the_classes():
    assert drawn() == {cls.__name__: "" if cls is HoldfastError else cls.__mro__[1].__name__ for cls in own()}


def test_invalid_input_is_a_value_error_and_says_what_was_wanted_and_got():
    error = InvalidInput("priority", wanted="0 to 9", got=10)
    assert isinstance(error, ValueError)
    assert (error.field, error.wanted, error.got) == ("priority", "0 to 9", "10")
    assert str(error) == "priority: wanted 0 to 9, got 10"


def test_a_long_value_is_recognisable_but_does_not_flood_a_log():
    error = InvalidInput("name", wanted="less", got="x" * 10_000)
    assert error.got == "x" * MAX_SHOWN_CHARACTERS + "… (10000 characters)"


def test_each_lease_error_names_its_job():
    lease_errors = [error for error in ALL if isinstance(error, LeaseError)]
    assert {error.job_id for error in lease_errors} == {"j1"}
    assert all("j1" in str(error) for error in lease_errors)
