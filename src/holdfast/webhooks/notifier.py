"""``Notifier``: tells subscribed workers that tasks wait to be claimed.

It looks at what is due now, not at what happened: so it does not matter whether a task was enqueued, its delay is over,
or its lease has expired. While tasks wait, a subscription is notified again after its minimum interval.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from holdfast.clock import SECOND, Clock, monotonic, to_datetime
from holdfast.drivers.contract import JobFilter, Store
from holdfast.drivers.estimates import count_jobs
from holdfast.model.job import JobRecord, State
from holdfast.webhooks.delivery import Delivery, message_id, notification_record
from holdfast.webhooks.subscription import DeliveryMode, Subscription, scan_subscriptions
from holdfast.webhooks.turn import Turn
from holdfast.wire.signing import Signer

LOOK_SECONDS = 1.0  # between two looks, or 20 times as long as counting takes
REST_FACTOR = 20
MAX_HEADS = 20  # tasks of one queue and command whose subscriptions are chosen by hash
PAGE_TASKS, MAX_PAGES = 100, 5  # that are read to find them
USEFUL_SECONDS = 30.0  # for which a notification is worth sending, at least
MAX_REMEMBERED = 100_000

_Lane = tuple[str, str]  # queue and command


class Notifier:
    """The notifier of one space. Used by one thread."""

    def __init__(self, store: Store, *, space: str, name: str, signer: Signer | None, clock: Clock) -> None:
        self._store = store
        self._space = space
        self._signer = signer
        self._clock = clock
        self._turn = Turn(store, "notifier", name=name)
        self._look_at = 0.0
        self._notified: dict[tuple[str, _Lane], float] = {}

    def notify(self) -> None:
        """Make the notifications that are due, if it is time and this process's turn."""
        if monotonic() < self._look_at:
            return
        began = monotonic()
        self._look_at = began + LOOK_SECONDS
        subscriptions = [one for one, _ in scan_subscriptions(self._store)]
        if not subscriptions or not self._turn.take():
            return
        due = self._due_lanes(subscriptions)
        self._look_at = monotonic() + max(LOOK_SECONDS, REST_FACTOR * (monotonic() - began))
        records = [record for lane in due for record in self._notifications(lane, _of_lane(subscriptions, lane))]
        if records:
            self._store.enqueue(records if self._signer is None else self._signer.sign(records))

    def stop(self) -> None:
        """Let another process go on at once."""
        self._turn.give_back()

    def _due_lanes(self, subscriptions: Sequence[Subscription]) -> list[_Lane]:
        queues = sorted({queue for one in subscriptions for queue in one.queues})
        types = {type_ for one in subscriptions for type_ in one.event_types}
        rows = count_jobs(self._store, queues, states=(State.READY,))
        return [(row.queue, row.type) for row in rows if row.oldest_ready_age is not None and row.type in types]

    def _notifications(self, lane: _Lane, subscriptions: Sequence[Subscription]) -> Iterator[JobRecord]:
        by_mode: defaultdict[DeliveryMode, list[Subscription]] = defaultdict(list)
        for one in subscriptions:
            by_mode[one.mode].append(one)
        chosen: dict[str, tuple[Subscription, str | None]] = {
            one.id: (one, None) for one in by_mode[DeliveryMode.FANOUT]
        }
        for members in _groups(by_mode[DeliveryMode.GROUP]).values():
            one = self._next_of_group(lane, members)
            chosen[one.id] = (one, None)
        if by_mode[DeliveryMode.HASH]:
            heads: list[str | None] = [*self._heads(lane)]
            for task_id in heads or [None]:
                one = choose(by_mode[DeliveryMode.HASH], lane[1], task_id or "")
                chosen.setdefault(one.id, (one, task_id))
        for one, head in chosen.values():
            if self._may_notify(one, lane):
                yield self._record(one, lane, head)

    def _next_of_group(self, lane: _Lane, members: Sequence[Subscription]) -> Subscription:
        """Return the member that is notified in this interval: another one in the next."""
        interval = max(member.min_interval_seconds for member in members)
        return choose(members, lane[1], str(int(self._clock.now() / (interval * SECOND))))

    def _heads(self, lane: _Lane) -> list[str]:
        """Return the first tasks of a queue and command that are due; none if too many tasks before them are not."""
        queue, type_ = lane
        now = self._clock.now()
        where, after = JobFilter(states=(State.READY,), queue=queue, type=type_), None
        for _ in range(MAX_PAGES):
            page = self._store.find(where, limit=PAGE_TASKS, after=after)
            due = [job.id for job in page if job.run_at is None or job.run_at <= now]
            if due or page.cursor is None:
                return due[:MAX_HEADS]
            after = page.cursor
        return []

    def _may_notify(self, one: Subscription, lane: _Lane) -> bool:
        """Whether the interval of the subscription, or of its group, is over. Counts it as notified then."""
        now = monotonic()
        whom = f"group {one.group}" if one.mode is DeliveryMode.GROUP else one.id
        last = self._notified.get((whom, lane))
        if last is not None and now - last < one.min_interval_seconds:
            return False
        if len(self._notified) > MAX_REMEMBERED:
            self._notified.clear()
        self._notified[whom, lane] = now
        return True

    def _record(self, one: Subscription, lane: _Lane, task_id: str | None) -> JobRecord:
        """Return the job of a notification. Its key makes it one per subscription, command and interval."""
        queue, command = lane
        now = self._clock.now()
        interval = int(now / (one.min_interval_seconds * SECOND))
        body: dict[str, object] = {
            "eventType": command,
            "queue": queue,
            "claimUrl": one.claim_url,
            "subscriptionId": one.id,
            "sentAt": to_datetime(now),
        }
        if task_id is not None:
            body["taskId"] = task_id
        delivery = Delivery(
            id=message_id(self._space, one.id, queue, command, interval),
            url=one.callback_url,
            body=msgspec.json.encode(body).decode(),
            expires_at=now + round(max(one.min_interval_seconds, USEFUL_SECONDS) * SECOND),
        )
        digest = hashlib.sha256(f"{queue}\0{command}".encode()).hexdigest()[:32]  # two names may be too long for a key
        return notification_record(delivery, key=f"{one.id}/{digest}/{interval}", now=now)


def _of_lane(subscriptions: Iterable[Subscription], lane: _Lane) -> list[Subscription]:
    queue, type_ = lane
    return [one for one in subscriptions if queue in one.queues and type_ in one.event_types]


def _groups(subscriptions: Iterable[Subscription]) -> Mapping[str | None, list[Subscription]]:
    groups: defaultdict[str | None, list[Subscription]] = defaultdict(list)
    for one in subscriptions:
        groups[one.group].append(one)
    return groups


def choose(subscriptions: Sequence[Subscription], command: str, key: str) -> Subscription:
    """Return one subscription by rendezvous hashing: if another one comes or goes, few keys change their choice."""
    return max(subscriptions, key=lambda one: hashlib.sha256(f"{one.id}\0{command}\0{key}".encode()).digest())
