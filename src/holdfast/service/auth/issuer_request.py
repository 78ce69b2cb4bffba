"""Requests to the issuer of tokens: to the one URL that the settings name, in a thread, with limits."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

from holdfast.errors import HoldfastError
from holdfast.log import events
from holdfast.log.failures import Repeats
from holdfast.log.records import log_event
from holdfast.net.guarded import Request, Rules, check_ca_file, send
from holdfast.net.urls import parse_pattern
from holdfast.service.auth.principal import AuthUnavailable
from holdfast.wire.codec import JSON

TIMEOUT = timedelta(seconds=5)
THREADS = 4
LOG_SECONDS = 60.0  # between two records of an issuer that fails
MAX_UNCHECKED = 64  # requests that wait until the issuer has answered about their token
MAX_ANSWER_BYTES = 256 << 10
# The operator chose this address: an issuer inside the same network is usual. Metadata services stay denied.
ALL_NETWORKS = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class IssuerRequests:
    """Sends requests to one URL, in threads of its own. No redirect is followed."""

    def __init__(self, field: str, url: str, *, ca_file: str | None = None) -> None:
        """Raise ``InvalidInput`` for a file without certificates."""
        check_ca_file("serve_ca_file", ca_file)
        self._field = field
        self._url = url
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="holdfast-issuer")
        self._failures = Repeats(LOG_SECONDS)
        self.works: bool | None = None  # whether the last request was answered; None before the first answer
        self._rules = Rules(
            allowed_urls=(parse_pattern(field, url),),
            allowed_networks=ALL_NETWORKS,
            ca_file=ca_file,
            connect_timeout=TIMEOUT,
            read_timeout=TIMEOUT,
            total_timeout=TIMEOUT,
            max_body_bytes=MAX_ANSWER_BYTES,
        )

    async def fetch(
        self, method: str = "GET", *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> dict[str, object]:
        """Return the JSON object of an answer with status 200. Raises ``AuthUnavailable``."""
        try:
            value = await self._fetch(method, headers=headers, body=body)
        except AuthUnavailable as error:
            self.works = False
            if (failures := self._failures.add()) is not None:
                log_event(events.HTTP_ISSUER_FAILED, setting=self._field, reason=str(error), failures=failures)
            raise
        self.works = True
        return value

    async def _fetch(self, method: str, *, headers: Mapping[str, str] | None, body: bytes) -> dict[str, object]:
        request = Request(
            url=self._url, method=method, headers={"accept": "application/json"} | dict(headers or {}), body=body
        )
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._executor, send, request, self._rules)
            if answer.status != 200 or answer.truncated:
                raise AuthUnavailable(f"status {answer.status}")
            value = JSON.decode(answer.body)
        except HoldfastError as error:
            raise AuthUnavailable(str(error)) from error
        if not isinstance(value, dict):
            raise AuthUnavailable("wanted a JSON object")
        return value

    def close(self) -> None:
        """End the threads; a request under way ends at its timeout."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class Unchecked:
    """Bounds the requests that wait until their token is checked. Anybody can send them."""

    def __init__(self) -> None:
        self.count = 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count one request. Raises ``AuthUnavailable`` if too many wait."""
        if self.count >= MAX_UNCHECKED:
            raise AuthUnavailable("too many tokens wait to be checked")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
