"""``WebhookRunner``: reads ledgers and sends deliveries for the spaces of a process, in the background."""

from __future__ import annotations

import threading

from holdfast.clock import Clock, SystemClock, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.log import events
from holdfast.log.records import log_event, log_failure
from holdfast.settings import Settings
from holdfast.signing import open_signer
from holdfast.webhooks.attempt import delivery_rules
from holdfast.webhooks.callbacks import CallbackReader
from holdfast.webhooks.deliveries import Deliveries
from holdfast.webhooks.notifier import Notifier
from holdfast.webhooks.secrets import WebhookSecrets
from holdfast.webhooks.senders import Senders
from holdfast.worker.verification import Verification

POLL_SECONDS = 1.0  # between two looks at a space, while nothing wakes the runner
MIN_PAUSE_SECONDS = 0.02  # between two looks: a busy service wakes the runner with every result
READ_PAUSE_SECONDS = 0.1  # between two reads of a ledger without unread pages
SECONDS_PER_SPACE = 0.01  # the looks of many spaces are spread: a hundred a second
MAX_POLL_SECONDS = 3.0  # deliveries under way are extended after each look
STOP_SECONDS = 10.0
NEEDED = (Feature.LEDGER, Feature.REGISTRY)


class _Space:
    """What runs in one space."""

    def __init__(self, reader: CallbackReader, notifier: Notifier, deliveries: Deliveries) -> None:
        self.reader = reader
        self.notifier = notifier
        self.deliveries = deliveries
        self._read_at = 0.0

    def look(self) -> float:
        """Read a page, notify, and reserve what is due; return after how many seconds to look again at the latest."""
        self.deliveries.beat()
        try:
            pause = self._read()
            self.notifier.notify()
        finally:  # whatever is wrong with the ledger or with a subscription
            self.deliveries.reserve_due()
        return pause

    def _read(self) -> float:
        pause = self._read_at - monotonic()
        if pause > 0:
            return pause
        has_more = self.reader.read()
        self._read_at = 0.0 if has_more else monotonic() + READ_PAUSE_SECONDS
        return 0.0 if has_more else MAX_POLL_SECONDS


class WebhookRunner:
    """Runs while a service or a worker runs. Without a secret for a space, nothing is done in the space."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        space: str,
        name: str,
        all_spaces: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Raise ``InvalidInput`` for settings that cannot be used.

        ``space`` is that of the store and of the settings. With ``all_spaces``, the other spaces that have secrets are
        served, too, also if nobody has used them since the process began.
        """
        self._store = store
        self._space = space
        self._all_spaces = all_spaces and store.capabilities.has(Feature.SPACES)
        self._settings = settings
        self._name = name
        self._clock = clock or SystemClock()
        self.secrets = WebhookSecrets(settings.webhooks, space=space)
        self.rules = delivery_rules(settings.webhooks)
        self._senders = Senders()
        self._spaces: dict[str, _Space] = {}
        self._failed: set[str] = set()  # spaces in which the last look failed
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_needed(self) -> bool:
        """Whether something can be sent: there are secrets, and the store has what callbacks need."""
        return self.secrets.exist and all(self._store.capabilities.has(feature) for feature in NEEDED)

    def _open(self, space: str) -> _Space:
        store = self._store if space == self._space else self._store.space(space)
        signer = open_signer(self._settings, space=space)
        return _Space(
            CallbackReader(
                store,
                space=space,
                name=self._name,
                signer=signer,
                clock=self._clock,
            ),
            Notifier(
                store,
                space=space,
                name=self._name,
                secrets=self.secrets,
                rules=self.rules,
                senders=self._senders,
                clock=self._clock,
            ),
            Deliveries(
                store,
                space=space,
                name=self._name,
                secrets=self.secrets,
                rules=self.rules,
                verification=None if signer is None else Verification(store, signer, worker=self._name),
                senders=self._senders,
                clock=self._clock,
                on_sent=self.wake,
            ),
        )

    def start(self) -> None:
        """Start the threads, if something can be sent."""
        if self.is_needed:
            self._senders.start()
            self._thread = threading.Thread(target=self._run, name="holdfast-webhooks", daemon=True)
            self._thread.start()

    def wake(self) -> None:
        """Look at once: a job has ended, or a sender is free. Safe to call from any thread."""
        self._wake.set()

    def stop(self) -> None:
        """Begin no more deliveries, and wait for those under way for some seconds."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            self._senders.stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            pause = min(MAX_POLL_SECONDS, POLL_SECONDS + SECONDS_PER_SPACE * len(self._spaces))
            for name in self.secrets.spaces():
                if self._stopping.is_set():
                    break
                if name == self._space or self._all_spaces:
                    pause = min(pause, self._look(name))
            self._senders.begin()  # after all spaces were looked at: they share the senders
            self._stopping.wait(MIN_PAUSE_SECONDS)
            if pause > 0:
                self._wake.wait(pause)
        self._senders.drop_waiting()
        for space in self._spaces.values():
            try:
                space.deliveries.give_back()
                space.reader.stop()
                space.notifier.stop()
            except HoldfastError:
                break  # the turn ends by itself

    def _look(self, name: str) -> float:
        """Look at one space; return after how many seconds to look again at the latest. Never raises."""
        try:
            if name not in self._spaces:
                self._spaces[name] = self._open(name)
            pause = self._spaces[name].look()
        except HoldfastError as error:
            if name not in self._failed:  # one line per outage
                log_event(events.WEBHOOK_PAUSED, space=name, reason=f"{type(error).__name__}: {error}")
            self._failed.add(name)
            return MAX_POLL_SECONDS
        except Exception as error:  # noqa: BLE001 - one unreadable row must not end the deliveries of all spaces
            if name not in self._failed:
                log_failure(events.WEBHOOK_PAUSED, error, space=name, reason="an unexpected error")
            self._failed.add(name)
            return MAX_POLL_SECONDS
        self._failed.discard(name)
        return pause
