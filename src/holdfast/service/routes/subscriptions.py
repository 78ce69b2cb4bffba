"""Calls of workers that want to be notified of work: subscribe, heartbeat, list, delete."""

from __future__ import annotations

from collections.abc import Sequence

from uuid_utils import uuid7

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.model.registry import Entry
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem
from holdfast.service.schemas.fields import instant
from holdfast.service.schemas.subscriptions import NewSubscription, SubscriptionList, SubscriptionState
from holdfast.service.system_queues import check_queue
from holdfast.service.webhook_checks import check_webhook
from holdfast.webhooks.subscription import (
    KIND,
    MAX_SUBSCRIPTIONS,
    DeliveryMode,
    Subscription,
    read_subscription,
    scan_subscriptions,
)

MAX_OF_SUBJECT = 100  # an operator may have more
RETRY_SECONDS = 60  # a subscription that is not kept alive has ended by then, perhaps


async def subscribe(call: Call) -> Reply:
    """Notify a worker of work from now on."""
    request: NewSubscription = call.body
    forbidden = set(request.event_types) - set(call.principal.claimable(request.event_types) or ())
    if forbidden:
        raise Problem(Code.FORBIDDEN, "the token does not allow all of these commands", field="eventTypes")
    subscription = Subscription(
        id=str(uuid7()),
        subject=call.principal.subject,
        callback_url=check_webhook(call, "callbackUrl", request.callback_url),
        event_types=tuple(dict.fromkeys(request.event_types)),
        queues=tuple(dict.fromkeys(map(check_queue, request.queues or [DEFAULT_QUEUE]))),
        mode=request.delivery_mode,
        group=_group(call, request),
        min_interval_seconds=request.min_interval_seconds,
        ttl_seconds=request.ttl_seconds,
        claim_url=f"{call.base_url}/v1/tasks/claim",
    )
    most = MAX_SUBSCRIPTIONS if call.principal.is_admin else MAX_OF_SUBJECT
    entry = await call.tenant.calls.run(_create, call.tenant.store, subscription, most)
    return Reply(status=201, content=_state(subscription, entry))


def _group(call: Call, request: NewSubscription) -> str | None:
    if request.delivery_mode is not DeliveryMode.GROUP:
        return request.group_id
    own = call.principal.worker_group
    if own is not None and request.group_id not in (None, own):
        raise Problem(Code.FORBIDDEN, "the token belongs to another group", field="groupId")
    group = request.group_id or own
    if group is None:
        raise Problem(Code.INVALID_REQUEST, "wanted a group with the mode group", field="groupId")
    return group


def _create(store: Store, subscription: Subscription, most: int) -> Entry:
    """Store a subscription, if its subject has fewer than ``most``."""
    if not store.capabilities.has(Feature.REGISTRY):
        raise Unsupported(store.capabilities.driver, Feature.REGISTRY, store.capabilities.gaps[Feature.REGISTRY])
    found = scan_subscriptions(store)
    if len(found) >= MAX_SUBSCRIPTIONS:
        limit = f"the space has {MAX_SUBSCRIPTIONS} subscriptions already"
        raise Problem(Code.OVERLOADED, limit, retry_after=RETRY_SECONDS)
    if sum(one.subject == subscription.subject for one, _ in found) >= most:
        limit = f"the subject has {most} subscriptions already"
        raise Problem(Code.RATE_LIMITED, limit, retry_after=RETRY_SECONDS)
    [entry] = store.do(Write(changes=[subscription.change(version=0)]))
    assert entry is not None, "a new id was taken"
    return entry


async def heartbeat(call: Call) -> Reply:
    """Let a subscription go on for its time to live."""
    subscription, found = await _own(call)
    [entry] = await call.tenant.calls.run(
        call.tenant.store.do, Write(changes=[subscription.change(version=found.version)])
    )
    if entry is None:  # another heartbeat was faster, or the subscription has ended
        subscription, entry = await _own(call)
    return Reply(content=_state(subscription, entry))


async def show_all(call: Call) -> Reply:
    """List the subscriptions of the caller; for an operator, of all workers."""
    found = await call.tenant.calls.run(scan_subscriptions, call.tenant.store)
    own = [(one, entry) for one, entry in found if call.principal.is_admin or one.subject == call.principal.subject]
    return Reply(content=SubscriptionList(subscriptions=[_state(one, entry) for one, entry in own]))


async def delete(call: Call) -> Reply:
    """End a subscription. Ending it again is a 404."""
    subscription, _ = await _own(call)
    await call.tenant.calls.run(call.tenant.store.do, Write(changes=[subscription.removal]))
    return Reply(status=204)


async def _own(call: Call) -> tuple[Subscription, Entry]:
    """Return the subscription of a path. That of another subject does not exist, except for an operator."""
    [entry] = await call.tenant.calls.run(call.tenant.store.do, Read(kind=KIND, keys=[call.path["subscription_id"]]))
    if entry is None:
        raise _unknown()
    subscription = read_subscription(entry)
    if not call.principal.is_admin and subscription.subject != call.principal.subject:
        raise _unknown()
    return subscription, entry


def _unknown() -> Problem:
    return Problem(Code.NOT_FOUND, "there is no such subscription")


def _state(one: Subscription, entry: Entry) -> SubscriptionState:
    return SubscriptionState(
        subscription_id=one.id,
        callback_url=one.callback_url,
        event_types=list(one.event_types),
        queues=list(one.queues),
        delivery_mode=one.mode,
        group_id=one.group,
        min_interval_seconds=one.min_interval_seconds,
        ttl_seconds=one.ttl_seconds,
        expires_at=instant(entry.expires_at),
    )


_OF_SUBSCRIPTION = {"parameters": {"subscription_id": "$response.body#/subscriptionId"}}

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="subscribe",
        method="POST",
        path="/workers/subscriptions",
        summary="Be notified of work",
        handler=subscribe,
        scope=Scope.SUBSCRIBE,
        body=NewSubscription,
        answers={201: SubscriptionState},
        problems=(Code.FORBIDDEN,),
        links={"heartbeatSubscription": _OF_SUBSCRIPTION, "deleteSubscription": _OF_SUBSCRIPTION},
    ),
    Operation(
        name="listSubscriptions",
        method="GET",
        path="/workers/subscriptions",
        summary="List the subscriptions of the caller",
        handler=show_all,
        scope=Scope.SUBSCRIBE,
        answers={200: SubscriptionList},
    ),
    Operation(
        name="heartbeatSubscription",
        method="POST",
        path="/workers/subscriptions/{subscription_id}/heartbeat",
        summary="Let a subscription go on",
        handler=heartbeat,
        scope=Scope.SUBSCRIBE,
        answers={200: SubscriptionState},
    ),
    Operation(
        name="deleteSubscription",
        method="DELETE",
        path="/workers/subscriptions/{subscription_id}",
        summary="End a subscription",
        handler=delete,
        scope=Scope.SUBSCRIBE,
        answers={204: None},
    ),
)
