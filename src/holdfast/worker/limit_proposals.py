"""Stores the limits and orders that the settings and the handlers of a worker propose, when the worker starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Settings
from holdfast.drivers.store import Store
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model.limit_proposal import LimitProposal, QueueLimits
from holdfast.model.queue_order import DEFAULT_ORDER, ORDER_FIELDS, QueueOrder
from holdfast.model.queue_settings import LIMIT_FIELDS, TYPE_LIMIT_FIELDS
from holdfast.worker.catalogue import Catalogue


class ProposedLimits:
    """The limits of the settings and of the handlers, which a worker proposes before its first reserve.

    ``orders`` are the orders of queues in the settings.
    """

    def __init__(
        self,
        store: Store,
        catalogue: Catalogue,
        of_settings: Sequence[LimitProposal],
        orders: Mapping[str, QueueOrder] | None = None,
    ) -> None:
        self._store = store
        self._orders = orders or {}
        self._catalogue = catalogue
        self._of_settings = of_settings
        self._has_proposed = False

    def store_once(self) -> None:
        """Propose the limits, unless an earlier call did. Raises ``StoreError``."""
        if self._has_proposed:
            return
        of_handlers = [handler.limits for handler in self._catalogue if handler.limits is not None]
        replaced = {(one.queue, one.type) for one in self._of_settings}
        others = [one for one in of_handlers if (one.queue, one.type) not in replaced]
        propose_limits(self._store, [*self._of_settings, *others])
        propose_orders(self._store, self._orders)
        self._has_proposed = True


def propose_orders(store: Store, orders: Mapping[str, QueueOrder]) -> None:
    """Store each order of a queue that has the default one; log ``order.differs`` for each other one that differs.

    Raises ``StoreError``, and ``Unsupported`` for an order that the driver does not offer.
    """
    for queue, order in orders.items():
        current = QueueOrder.of(store.do(Settings(queue=queue)))
        if current == DEFAULT_ORDER:
            store.do(Configure(queue=queue, settings=order.as_settings(), only=ORDER_FIELDS))
        elif current != order:
            log_event(events.ORDER_DIFFERS, queue=queue, settings=asdict(order), store=asdict(current))


def propose_limits(store: Store, proposals: Sequence[LimitProposal]) -> None:
    """Store each proposal that may replace what the store has; log ``limits.differ`` for each that may not.

    Raises ``StoreError``. May be called again: a proposal that is stored already changes nothing.
    """
    if not store.capabilities.has(Feature.LIMITS):
        return
    for proposal in proposals:
        queue, type_, limits = proposal.queue, proposal.type, proposal.limits
        fields = LIMIT_FIELDS if type_ is None else TYPE_LIMIT_FIELDS
        current = store.do(Settings(queue=queue, type=type_))
        if current.merge(proposal.as_settings(), fields) != current:
            store.do(Configure(queue=queue, settings=proposal.as_settings(), type=type_, only=fields))
            current = store.do(
                Settings(queue=queue, type=type_)
            )  # an operator may have set limits meanwhile: these stay
        if QueueLimits.of(current) != limits:
            facts = {"settings": asdict(limits), "store": asdict(QueueLimits.of(current))}
            reason = f"from the {proposal.origin}"
            log_event(events.LIMITS_DIFFER, queue=queue, type=type_, reason=reason, **facts)
