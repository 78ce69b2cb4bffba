"""Requests to the issuer of tokens: to the one URL that the settings name, in a thread, with limits."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from concurrent.futures import Executor
from datetime import timedelta

from holdfast.errors import HoldfastError
from holdfast.net.guarded import Request, Rules, check_ca_file, send
from holdfast.net.urls import parse_pattern
from holdfast.service.auth.principal import AuthUnavailable
from holdfast.wire.codec import JSON

TIMEOUT = timedelta(seconds=5)
MAX_ANSWER_BYTES = 256 << 10
# The operator chose this address: an issuer inside the same network is usual. Metadata services stay denied.
ALL_NETWORKS = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class IssuerRequests:
    """Sends requests to one URL. No redirect is followed."""

    def __init__(self, field: str, url: str, executor: Executor, *, ca_file: str | None = None) -> None:
        """Raise ``InvalidInput`` for a file without certificates."""
        check_ca_file("serve_ca_file", ca_file)
        self._url = url
        self._executor = executor
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
        request = Request(
            url=self._url, method=method, headers={"accept": "application/json"} | dict(headers or {}), body=body
        )
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._executor, send, request, self._rules)
            if answer.status != 200 or answer.truncated:
                raise AuthUnavailable(f"{self._url}: status {answer.status}")
            value = JSON.decode(answer.body)
        except HoldfastError as error:
            raise AuthUnavailable(f"{self._url}: {error}") from error
        if not isinstance(value, dict):
            raise AuthUnavailable(f"{self._url}: wanted a JSON object")
        return value
