"""What a service tells about itself to a driver: the version of the protocol, and what the store behind it offers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.drivers.contract import Store
from holdfast.drivers.optional import (
    AuditScan,
    CancelWait,
    CountEstimates,
    Diagnosis,
    LeasedEnqueue,
    LedgerDiagnosis,
    LedgerScan,
    SpaceAdmin,
    WebhookScan,
)
from holdfast.drivers.remote.verbs import PROTOCOL_VERSION
from holdfast.errors import CallerClockRefused

DRIVER = "http"
NO_TRANSACTION = "a transaction of the caller cannot be joined over HTTP"
NO_MACHINES = "the address of the service leads to each machine itself"
NO_SPACES = "the token is for one space; other spaces need the role admin"
NO_CALLER_CLOCK = "the service opened its store without caller_clock=True"
OPTIONAL: tuple[type, ...] = (
    AuditScan,
    CancelWait,
    CountEstimates,
    Diagnosis,
    LeasedEnqueue,
    LedgerDiagnosis,
    LedgerScan,
    SpaceAdmin,
    WebhookScan,
)

OF_ADMINS: tuple[type, ...] = (Diagnosis, LedgerDiagnosis, SpaceAdmin)  # offered only with the role admin


class DriverDescription(msgspec.Struct, kw_only=True, rename="camel"):
    """The answer of ``GET /v1/driver``."""

    protocol: int
    store: str  # the name of its driver
    durability: int
    gaps: dict[str, str]  # by feature: why the store does not offer it
    optional: list[str]  # the optional protocols of the contract that the store offers
    has_serial_arrivals: bool
    has_numbered_ledger: bool
    space: str  # of the token
    all_spaces: bool  # whether the token is valid for every space

    def capabilities(self, *, is_loopback: bool) -> Capabilities:
        """Return the capabilities of the driver: those of the store, minus what cannot go over the wire.

        Any number of processes may call a service, whatever its store offers; machines only if its address is not that
        of loopback.
        """
        known = {feature.value: feature for feature in Feature}
        gaps = {known[name]: reason for name, reason in self.gaps.items() if name in known}
        gaps.pop(Feature.PROCESSES, None)
        gaps.pop(Feature.MACHINES, None)
        if is_loopback:
            gaps[Feature.MACHINES] = NO_MACHINES
        gaps[Feature.JOINED] = NO_TRANSACTION
        if not self.all_spaces:
            gaps.setdefault(Feature.SPACES, NO_SPACES)
        return Capabilities(driver=DRIVER, durability=Durability(self.durability), gaps=gaps)


def describe(store: Store, *, space: str, all_spaces: bool) -> DriverDescription:
    """Return what a store offers over the wire."""
    capabilities = store.capabilities
    gaps = dict(capabilities.gaps)
    if not _takes_now(store):
        gaps.setdefault(Feature.CALLER_CLOCK, NO_CALLER_CLOCK)
    return DriverDescription(
        protocol=PROTOCOL_VERSION,
        store=capabilities.driver,
        durability=capabilities.durability,
        gaps={feature.value: reason for feature, reason in gaps.items()},
        optional=sorted(_offered(store, is_admin=all_spaces)),
        has_serial_arrivals=isinstance(store, AuditScan) and store.has_serial_arrivals,
        has_numbered_ledger=isinstance(store, AuditScan) and store.has_numbered_ledger,
        space=space,
        all_spaces=all_spaces,
    )


def _takes_now(store: Store) -> bool:
    """Whether the store was opened with ``caller_clock=True``. An empty batch of settlements changes nothing."""
    try:
        store.settle([], now=1)
    except CallerClockRefused:
        return False
    return True


def _offered(store: Store, *, is_admin: bool) -> Iterable[str]:
    for protocol in OPTIONAL:
        if isinstance(store, protocol) and (is_admin or protocol not in OF_ADMINS):
            yield protocol.__name__
