"""``PostgresTiming``: how long the driver waits for the server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresTiming:
    """The time constants of one store."""

    first_poll_seconds: float = 0.02  # between two polls; doubled while there is no work ...
    max_poll_seconds: float = 0.5  # ... up to this without a listener,
    max_poll_with_listener_seconds: float = 2.0  # ... and up to this with a listener that works
    horizon_timeout_seconds: float = 2.0  # that an empty page waits for older transactions that hold rows back
    horizon_poll_seconds: float = 0.005
    echo_interval_seconds: float = 10.0  # between two notifications that the listener sends to itself
    echo_timeout_seconds: float = 2.0
    reconnect_delay_seconds: float = 5.0  # of the listener
    stop_poll_seconds: float = 0.2  # between two checks of the listener's stop flag
    lost_call_seconds: float = 5.0  # a server that does not notice a lost connection may commit the call so much later

    def longest_poll_seconds(self, *, has_listener: bool) -> float:
        """Return the longest time between two polls, with a listener that works or without one."""
        return self.max_poll_with_listener_seconds if has_listener else self.max_poll_seconds
