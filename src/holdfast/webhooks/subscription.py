"""``Subscription``: a worker's wish to be told of work, an entry of the registry that expires."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from holdfast.clock import SECOND
from holdfast.drivers.requests import Scan
from holdfast.drivers.store import Store
from holdfast.model.registry import Change, Entry

KIND = "webhooks.subscription"
MAX_SUBSCRIPTIONS = 1000  # of one space


class DeliveryMode(StrEnum):
    """Which of the subscriptions to a command are notified."""

    FANOUT = "fanout"  # all
    GROUP = "group"  # one of each group
    HASH = "hash"  # one for each task: always the same one while the subscriptions stay the same


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """The value of the entry. Its key is ``id``."""

    id: str
    subject: str
    callback_url: str
    event_types: tuple[str, ...]
    queues: tuple[str, ...]
    mode: DeliveryMode
    group: str | None
    min_interval_seconds: float
    ttl_seconds: float
    claim_url: str

    def change(self, *, version: int | None) -> Change:
        """Return the change that stores the subscription from now on for its time to live."""
        ttl = round(self.ttl_seconds * SECOND)
        return Change(kind=KIND, key=self.id, value=msgspec.json.encode(self), version=version, ttl=ttl)

    @property
    def removal(self) -> Change:
        """The change that ends the subscription, also if a heartbeat is faster."""
        return Change(kind=KIND, key=self.id, value=None)


def read_subscription(entry: Entry) -> Subscription:
    """Return the subscription of an entry."""
    assert entry.value is not None
    return msgspec.json.decode(entry.value, type=Subscription)


def scan_subscriptions(store: Store) -> list[tuple[Subscription, Entry]]:
    """Return the subscriptions of a space that have not expired, with their entries."""
    return [(read_subscription(entry), entry) for entry in store.do(Scan(kind=KIND, limit=MAX_SUBSCRIPTIONS))]
