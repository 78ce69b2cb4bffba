"""``Notifier``: tells subscribed workers that tasks wait to be claimed.

It looks at what is due now, not at what happened: so it does not matter whether a task was enqueued, its delay is over,
or its lease has expired. While tasks wait, a subscription is notified again after its minimum interval. A notification
is a hint, sent once and stored nowhere: if it is lost with its process, the next one follows.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from holdfast.clock import SECOND, Clock, monotonic, to_datetime
from holdfast.drivers.requests import Counts, ReadColumns
from holdfast.drivers.store import Store
from holdfast.errors import RequestFailed, RequestRefused
from holdfast.log import events
from holdfast.log.records import log_event, log_failure
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.net.guarded import Rules
from holdfast.webhooks.attempt import describe, is_accepted, send_delivery
from holdfast.webhooks.delivery import Delivery, host_of, message_id
from holdfast.webhooks.secrets import WebhookSecrets
from holdfast.webhooks.senders import Senders
from holdfast.webhooks.shares import Place
from holdfast.webhooks.subscription import DeliveryMode, Subscription, scan_subscriptions
from holdfast.webhooks.turn import Turn

LOOK_SECONDS = 1.0  # between two looks, or 20 times as long as a look takes
REST_FACTOR = 20
MAX_TASKS = 1000  # of one queue and command that are told by hash: the next ones when these are claimed
MAX_CHOICES = 100_000  # hashes that are computed for them
PAGE_TASKS, MAX_PAGES = 500, 10  # that are read to find them
MAX_CHOOSE_SECONDS = 0.5  # in one look, if there are very many subscriptions, queues and commands
MAX_PER_HOST = 10  # notifications to one host in one look, whoever has subscribed
MAX_SENDING = 100  # notifications that wait for a sender or are sent, so that callbacks have room beside them
USEFUL_SECONDS = 30.0  # for which a notification is worth sending, at least
FAILED_SECONDS = 60.0  # for which others are told instead of a subscription that could not be told
MAX_REMEMBERED = 100_000

_Lane = tuple[str, str]  # queue and command


@dataclass(frozen=True, slots=True, kw_only=True)
class _Notice:
    """What one subscription is to be told. ``failed`` are the others whose work this subscription has got."""

    to: Subscription
    lane: _Lane
    tasks: tuple[str, ...] = ()
    failed: frozenset[str] = frozenset()

    @property
    def whom(self) -> tuple[str, _Lane]:
        """Whose interval counts: that of a group, or of the subscription."""
        one = self.to
        return (f"group {one.group}" if one.mode is DeliveryMode.GROUP else one.id, self.lane)


class Notifier:
    """The notifier of one space. Used by one thread."""

    def __init__(
        self,
        store: Store,
        *,
        space: str,
        name: str,
        secrets: WebhookSecrets,
        rules: Rules,
        senders: Senders,
        clock: Clock,
    ) -> None:
        self._store = store
        self._space = space
        self._secrets = secrets
        self._rules = rules
        self._senders = senders
        self._clock = clock
        self._turn = Turn(store, "notifier", name=name)
        self._look_at = 0.0
        self._told: dict[tuple[str, _Lane], tuple[float, frozenset[str]]] = {}  # when, and who had failed by then
        self._sending: set[tuple[str, _Lane]] = set()  # by subscription; changed by senders, too
        self._failed: dict[str, float] = {}  # until when a subscription counts as failed; changed by senders, too

    def notify(self) -> None:
        """Let senders send the notifications that are due, if it is time and this process's turn."""
        began = monotonic()
        if began < self._look_at:
            return
        self._look_at = began + LOOK_SECONDS
        subscriptions = [one for one, _ in scan_subscriptions(self._store)]
        if not subscriptions or not self._turn.take():
            return
        hosts: Counter[str] = Counter()
        for notice in self._due_notices(subscriptions):
            host = host_of(notice.to.callback_url) or ""
            if hosts[host] < MAX_PER_HOST and len(self._sending) < MAX_SENDING:
                hosts[host] += 1
                self._put(notice, host)
        self._look_at = monotonic() + max(LOOK_SECONDS, REST_FACTOR * (monotonic() - began))

    def stop(self) -> None:
        """Let another process go on at once."""
        self._turn.give_back()

    # Whom to tell of what ---------------------------------------------------------------------------------------

    def _due_notices(self, subscriptions: Sequence[Subscription]) -> list[_Notice]:
        """Return what may be told now; first to those that were told first."""
        lanes = self._due_lanes(subscriptions)
        random.shuffle(lanes)  # if there are too many for one look, others come first in the next one
        ends_at = monotonic() + MAX_CHOOSE_SECONDS
        notices: list[_Notice] = []
        for lane in lanes:
            notices += filter(self._may_tell, self._notices(lane, _of_lane(subscriptions, lane)))
            if monotonic() > ends_at:
                break
        return sorted(notices, key=lambda notice: self._told.get(notice.whom, (0.0,))[0])

    def _due_lanes(self, subscriptions: Sequence[Subscription]) -> list[_Lane]:
        queues = sorted({queue for one in subscriptions for queue in one.queues})
        types = {type_ for one in subscriptions for type_ in one.event_types}
        rows = self._store.do(Counts(queues=queues, states=(State.READY,), estimate=True))
        return [(row.queue, row.type) for row in rows if row.oldest_ready_age is not None and row.type in types]

    def _notices(self, lane: _Lane, subscriptions: Sequence[Subscription]) -> Iterator[_Notice]:
        groups: defaultdict[str | None, list[Subscription]] = defaultdict(list)
        by_hash: list[Subscription] = []
        for one in subscriptions:
            match one.mode:
                case DeliveryMode.FANOUT:
                    yield _Notice(to=one, lane=lane)
                case DeliveryMode.GROUP:
                    groups[one.group].append(one)
                case DeliveryMode.HASH:
                    by_hash.append(one)
        for members in groups.values():
            yield self._notice_of_group(lane, members)
        if by_hash:
            yield from self._notices_by_hash(lane, by_hash)

    def _notice_of_group(self, lane: _Lane, members: Sequence[Subscription]) -> _Notice:
        interval = max(member.min_interval_seconds for member in members)
        turn = str(int(self._clock.now() / (interval * SECOND)))  # another member in the next interval
        healthy, failed = self._without_failed(members)
        return _Notice(to=choose(healthy, lane[1], turn), lane=lane, failed=failed)

    def _notices_by_hash(self, lane: _Lane, members: Sequence[Subscription]) -> Iterator[_Notice]:
        """Return for each member the due tasks that are its own, and those of members that failed."""
        tasks: defaultdict[str, list[str]] = defaultdict(list)
        instead_of: defaultdict[str, set[str]] = defaultdict(set)
        healthy, failed = self._without_failed(members)
        found = self._due_tasks(lane, most=min(MAX_TASKS, MAX_CHOICES // len(members)))
        for task_id in found or [""]:
            to = first = choose(members, lane[1], task_id)
            if first.id in failed:
                to = choose(healthy, lane[1], task_id)
                instead_of[to.id].add(first.id)
            tasks[to.id].append(task_id)
        for one in members:
            if one.id in tasks:
                told = tuple(tasks[one.id]) if found else ()
                yield _Notice(to=one, lane=lane, tasks=told, failed=frozenset(instead_of[one.id]))

    def _without_failed(self, members: Sequence[Subscription]) -> tuple[Sequence[Subscription], frozenset[str]]:
        """Return the members that can be told, and the ids of the others; all members if none can."""
        now = monotonic()
        failed = frozenset(member.id for member in members if self._failed.get(member.id, now) > now)
        return [member for member in members if member.id not in failed] or members, failed

    def _due_tasks(self, lane: _Lane, *, most: int) -> list[str]:
        """Return the first tasks of a queue and command that are due; none if too many tasks before them are not."""
        queue, type_ = lane
        now = self._clock.now()
        where, after = JobFilter(states=(State.READY,), queue=queue, type=type_), None
        due: list[str] = []
        for _ in range(MAX_PAGES):
            page, after = self._read_tasks(where, after)
            due += [id_ for id_, run_at in page if run_at is None or run_at <= now]
            if len(due) >= most or after is None:
                break
        return due[:most]

    def _read_tasks(self, where: JobFilter, after: str | None) -> tuple[list[tuple[str, int | None]], str | None]:
        """Return a page of ids with the instants from which on the tasks are due, and the cursor of the next page."""
        request = ReadColumns(where=where, names=["id", "run_at"], limit=PAGE_TASKS, after=after)
        (ids, run_at), cursor = self._store.do(request)
        return msgspec.convert(list(zip(ids, run_at, strict=True)), list[tuple[str, int | None]]), cursor

    def _may_tell(self, notice: _Notice) -> bool:
        """Whether the interval is over, or another subscription has failed whose work this one has got since."""
        if (notice.to.id, notice.lane) in self._sending:
            return False
        told = self._told.get(notice.whom)
        if told is None:
            return True
        told_at, failed = told
        if monotonic() - told_at >= notice.to.min_interval_seconds:
            return True
        return notice.to.id not in notice.failed and not notice.failed <= failed

    # Sending ----------------------------------------------------------------------------------------------------

    def _delivery(self, notice: _Notice) -> Delivery:
        (queue, command), one, now = notice.lane, notice.to, self._clock.now()
        body: dict[str, object] = {
            "eventType": command,
            "queue": queue,
            "claimUrl": one.claim_url,
            "subscriptionId": one.id,
            "sentAt": to_datetime(now),
        }
        if notice.tasks:
            body["taskIds"] = notice.tasks
        return Delivery(
            id=message_id(self._space, one.id, queue, command, now),
            url=one.callback_url,
            body=msgspec.json.encode(body).decode(),
        )

    def _put(self, notice: _Notice, host: str) -> None:
        if len(self._told) > MAX_REMEMBERED or len(self._failed) > MAX_REMEMBERED:
            self._told.clear()
            self._failed.clear()
        self._told[notice.whom] = (monotonic(), notice.failed)
        self._sending.add((notice.to.id, notice.lane))
        useful_until = monotonic() + max(notice.to.min_interval_seconds, USEFUL_SECONDS)
        self._senders.put(Place(self._space, host), partial(self._send, notice, useful_until))

    def _send(self, notice: _Notice, useful_until: float) -> bool:
        """Send one notification; return whether it was sent. Never raises."""
        if monotonic() >= useful_until:
            self._sending.discard((notice.to.id, notice.lane))
            return False
        reason: str | None = None
        try:
            response = send_delivery(
                self._delivery(notice), self._rules, self._secrets.of(self._space), self._clock.now()
            )
            if not is_accepted(response):
                reason = describe(response)
        except (RequestRefused, RequestFailed) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            log_failure(
                events.WEBHOOK_UNNOTIFIED, error, space=self._space, subscription=notice.to.id, reason="unexpected"
            )
        if reason is not None:
            self._failed[notice.to.id] = monotonic() + FAILED_SECONDS
            log_event(events.WEBHOOK_UNNOTIFIED, space=self._space, subscription=notice.to.id, reason=reason)
        self._sending.discard((notice.to.id, notice.lane))
        return True


def _of_lane(subscriptions: Iterable[Subscription], lane: _Lane) -> list[Subscription]:
    queue, type_ = lane
    return [one for one in subscriptions if queue in one.queues and type_ in one.event_types]


def choose(subscriptions: Sequence[Subscription], command: str, key: str) -> Subscription:
    """Return one subscription by rendezvous hashing: if another one comes or goes, few keys change their choice."""
    return max(subscriptions, key=lambda one: hashlib.sha256(f"{one.id}\0{command}\0{key}".encode()).digest())
