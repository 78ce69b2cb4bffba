"""``ServiceTiming``: how long a service waits for its clients and for its store."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.worker.timing import MaintenanceTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTiming:
    """The time constants of one service."""

    header_seconds: float = 10.0  # from the first byte of a connection or request to the end of its headers
    body_seconds: float = 10.0  # from the end of the headers to the end of the body; of an upload, to the next byte
    upload_grace_seconds: float = 30.0  # after which an upload must have the least rate
    write_seconds: float = 30.0  # for which a client may take next to nothing of an answer
    keep_alive_seconds: int = 75  # of an idle connection: longer than those of usual load balancers
    linger_seconds: float = 1.0  # for which open connections may send one more request when the service stops
    drain_seconds: int = 20  # after that, for which requests may go on
    stop_seconds: float = 3.0  # after that, for which calls to the store may go on
    store_seconds: float = 10.0  # that the store has to answer a call
    batch_queue_seconds: float = 4.0  # for which a request may wait, in addition, until its call begins
    heartbeat_seconds: float = 15.0  # of a stream without an event: proxies close a silent connection
    token_check_seconds: float = 10.0  # after which the token of a stream is checked again
    probe_seconds: float = 2.0  # that the store, and the issuer of tokens, have to answer a readiness probe
    issuer_check_seconds: float = 5.0  # between two requests of readiness probes to an issuer that fails
    maintenance_seconds: float = 1.0  # between two looks at what is due
    maintenance: MaintenanceTiming = MaintenanceTiming()
    count_age_seconds: float = 1.0  # for which counts of tasks are kept, at least
