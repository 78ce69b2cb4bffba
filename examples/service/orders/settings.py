"""The settings of the shop: the store from ``holdfast.toml`` or ``HOLDFAST_*``, the rest from ``ORDERS_*``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the shop needs to know beside its store; read from the environment when it is made."""

    payments_url: str = field(  # the service itself has a stand-in for a payment provider
        default_factory=lambda: os.environ.get("ORDERS_PAYMENTS_URL", "http://127.0.0.1:8000/sandbox")
    )
    payment_time: timedelta = field(  # after this time an unpaid order is cancelled
        default_factory=lambda: timedelta(seconds=float(os.environ.get("ORDERS_PAYMENT_SECONDS", "1800")))
    )
