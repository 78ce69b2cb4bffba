"""What a service tells about itself to a driver: the version of the protocol, and what the store behind it offers."""

from __future__ import annotations

import msgspec

from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.drivers.http.protocol import PROTOCOL_VERSION
from holdfast.drivers.store import Store

DRIVER = "http"
NO_TRANSACTION = "a transaction of the caller cannot be joined over HTTP"
NO_MACHINES = "the address of the service leads to each machine itself"
NO_SPACES = "the token is for one space; other spaces need the role admin"
NO_CALLER_CLOCK = "the service opened its store without caller_clock=True"


class DriverDescription(msgspec.Struct, kw_only=True, rename="camel"):
    """The answer of ``GET /v1/driver``."""

    protocol: int
    store: str  # the name of its driver
    durability: int
    gaps: dict[str, str]  # by feature: why the store does not offer it
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
    capabilities, engine = store.capabilities, store.engine
    gaps = dict(capabilities.gaps)
    if not engine.caller_clock:
        gaps.setdefault(Feature.CALLER_CLOCK, NO_CALLER_CLOCK)
    return DriverDescription(
        protocol=PROTOCOL_VERSION,
        store=capabilities.driver,
        durability=capabilities.durability,
        gaps={feature.value: reason for feature, reason in gaps.items()},
        has_serial_arrivals=engine.has_serial_arrivals,
        has_numbered_ledger=engine.has_numbered_ledger,
        space=space,
        all_spaces=all_spaces,
    )
