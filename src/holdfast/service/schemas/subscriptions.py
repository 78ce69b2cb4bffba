"""Messages about subscriptions of workers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from holdfast.service.schemas.fields import MAX_CLAIM_NAMES, Answer, Instant, Name, Request, Text, WebhookUrl
from holdfast.webhooks.subscription import DeliveryMode

MIN_INTERVAL_SECONDS, MAX_INTERVAL_SECONDS = 0.1, 86_400
MIN_TTL_SECONDS, MAX_TTL_SECONDS = 1, 86_400
Names = Annotated[list[Name], Meta(min_length=1, max_length=MAX_CLAIM_NAMES)]


class NewSubscription(Request):
    """Whom to notify of which work. The subscription ends after ``ttlSeconds`` without a heartbeat."""

    callback_url: WebhookUrl
    event_types: Names
    queues: Names | None = None  # None: the queue of the settings
    delivery_mode: DeliveryMode = DeliveryMode.FANOUT
    group_id: Text | None = None  # of the mode ``group``; None: the ``workerGroup`` of the token
    min_interval_seconds: Annotated[float, Meta(ge=MIN_INTERVAL_SECONDS, le=MAX_INTERVAL_SECONDS)] = 5.0
    ttl_seconds: Annotated[float, Meta(ge=MIN_TTL_SECONDS, le=MAX_TTL_SECONDS)] = 300.0


class SubscriptionState(Answer):
    """A subscription."""

    subscription_id: str
    callback_url: str
    event_types: list[str]
    queues: list[str]
    delivery_mode: DeliveryMode
    group_id: str | None
    min_interval_seconds: float
    ttl_seconds: float
    expires_at: Instant | None


class SubscriptionList(Answer):
    """The subscriptions of the caller; for an operator, of all workers."""

    subscriptions: list[SubscriptionState]
