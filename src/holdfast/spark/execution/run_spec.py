"""What the Spark driver and the slots of one run exchange: the specification of the run, and registry entries."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from holdfast.clock import DAY
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.model.registry import Change, Entry
from holdfast.settings import SigningMode
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.options import WorkerOptions

# Registry kinds. A slot's name is run/stage/slot/try.
SLOT_STATUS_KIND = "spark.slot"  # by slot name: a SlotStatus
SLOT_TRY_KIND = "spark.try"  # by slot name: this try of a slot has started
RUN_KIND = "spark.run"  # by run: a command for all slots
STOP, STOP_AT_ONCE = b"stop", b"stop at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What every slot of a run needs. Pickled into the closure of the Spark task, which no page and no log shows."""

    run: str
    url: str
    space: str
    catalogue: Catalogue
    options: WorkerOptions
    stop_after: float | None = None  # seconds
    ledger_start: str | None = None  # cursor: where the ledger ended when the run began
    signing: SigningMode = SigningMode.OFF  # of the Spark driver; each executor has its own keys
    reports_attempts: bool = True  # whether slots return one row for each attempt

    def __repr__(self) -> str:
        return f"RunSpec(run={self.run!r})"  # the URL may contain a password


class SlotStatus(msgspec.Struct, frozen=True):
    """What a slot reports about itself, twice a second."""

    settled: dict[str, int]  # attempts by status
    alive: bool = True
    held: int = 0  # jobs that the slot has reserved and not yet settled
    executor: str = ""  # host:pid

    @classmethod
    def of(cls, entry: Entry) -> SlotStatus:
        """Decode the registry entry of a slot."""
        return msgspec.json.decode(entry.value or b"{}", type=cls)


def send_stop(store: Store, run: str, *, at_once: bool = False) -> None:
    """Command all slots of a run to reserve nothing more, and to release what has not ended after the drain time.

    With ``at_once`` slots do not wait for running jobs.
    """
    store.do(Write(changes=[Change(kind=RUN_KIND, key=run, value=STOP_AT_ONCE if at_once else STOP, ttl=DAY)]))


def read_stop(store: Store, run: str) -> bytes | None:
    """Return the stop command of a run: None, ``STOP`` or ``STOP_AT_ONCE``."""
    [entry] = store.do(Read(kind=RUN_KIND, keys=[run]))
    return None if entry is None else entry.value
