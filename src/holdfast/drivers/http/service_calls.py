"""One call of the service: the token, the encoding, and what each status means."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import quote

import msgspec

from holdfast.clock import monotonic
from holdfast.drivers.http.connections import Connections, HttpAnswer
from holdfast.drivers.http.description import DriverDescription
from holdfast.drivers.http.errors import ErrorFacts, read_error
from holdfast.drivers.http.protocol import (
    CALL_ID_HEADER,
    CONTENT_TYPE,
    MAX_CALL_BYTES,
    PROTOCOL_VERSION,
    decode_answer,
    encode_request,
    grants_leases,
    group_of,
    is_repeatable,
)
from holdfast.drivers.http.token import TokenSource
from holdfast.drivers.http.url import ServiceAddress
from holdfast.drivers.requests import Request
from holdfast.errors import ConnectError, HoldfastError, InvalidInput, StoreBusy, StoreUnavailable, Unsupported

A = TypeVar("A")

DRIVER_PATH = "/v1/driver"
JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
MAX_BUSY_PAUSE_SECONDS = 5.0
BUSY = frozenset({429, 503})  # too many requests; the service or its store cannot answer now


class _Problem(msgspec.Struct):
    """What the driver reads of a problem (RFC 9457)."""

    code: str = ""
    detail: str = ""
    error: str | None = None
    facts: dict[str, str | int | float | None] = {}


class ServiceCalls:
    """Sends requests to one service. Safe to share between threads."""

    def __init__(self, address: ServiceAddress, token: TokenSource) -> None:
        self.connections = Connections(address)
        self._address = address
        self._token = token

    def describe(self) -> DriverDescription:
        """Return what the service offers. Raises ``ConnectError`` if it is no service for this driver."""
        answer = self._ask("GET", DRIVER_PATH, timeout=self._address.timeout, is_repeatable=True)
        if answer.status != 200 or not answer.content_type.startswith(JSON_TYPE):
            if answer.status == 401:
                raise ConnectError(f"{self._address.shown} refused the token: set HOLDFAST_TOKEN or ?token_file=FILE")
            if answer.status == 403:
                raise ConnectError(f"{self._address.shown}: wanted a token with the scope driver")
            raise ConnectError(f"{self._address.shown}: wanted a Holdfast service, got the status {answer.status}")
        try:
            description = msgspec.json.decode(answer.body, type=DriverDescription)
        except msgspec.MsgspecError as error:
            raise ConnectError(f"{self._address.shown}: wanted a Holdfast service, got {error}") from error
        if description.protocol != PROTOCOL_VERSION:
            wanted = f"wanted version {PROTOCOL_VERSION} of the protocol, got {description.protocol}"
            raise ConnectError(f"{self._address.shown}: {wanted}; use the same version of Holdfast on both sides")
        return description

    def call(self, request: Request[A], *, space: str | None = None, waits: float = 0.0) -> A:
        """Return the answer of a request, made in the space of the token or in ``space``.

        ``waits`` are the seconds for which the service may wait by request.
        """
        verb = request.verb
        try:
            body = encode_request(request)
        except (ValueError, OverflowError, TypeError) as error:
            raise InvalidInput(verb, wanted="text in UTF-8 and numbers of 64 bits", got=str(error)) from error
        if len(body) > MAX_CALL_BYTES:
            raise InvalidInput(verb, wanted=f"a request of at most {MAX_CALL_BYTES} bytes", got=f"{len(body)}")
        in_space = "" if space is None else f"?space={quote(space, safe='')}"
        answer = self._ask(
            "POST",
            f"{DRIVER_PATH}/{group_of(request)}/{verb}{in_space}",
            body,
            headers={CALL_ID_HEADER: secrets.token_hex(12)} if grants_leases(request) else {},
            timeout=self._address.timeout + waits,
            is_repeatable=is_repeatable(request),
        )
        if answer.status == 200:
            return self._decode(request, answer)
        raise self._error_of(verb, answer)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] = {},
        timeout: float,
        is_repeatable: bool,
    ) -> HttpAnswer:
        """Send a request again while the service is busy, as long as the patience of the address allows."""
        began = monotonic()
        while True:
            answer = self._send(method, path, body, headers=headers, timeout=timeout, is_repeatable=is_repeatable)
            if answer.status not in BUSY:
                return answer
            pause = min(answer.retry_after or 1.0, MAX_BUSY_PAUSE_SECONDS)
            waited = monotonic() - began
            if waited + pause > self._address.patience:
                raise self._busy_error(answer, waited)
            self.connections.pause(pause)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str],
        timeout: float,
        is_repeatable: bool,
    ) -> HttpAnswer:
        while True:
            answer = self.connections.request(
                method,
                self._address.path + path,
                headers={
                    "Accept": f"{JSON_TYPE if body is None else CONTENT_TYPE}, {PROBLEM_TYPE}",
                    **({} if body is None else {"Content-Type": CONTENT_TYPE}),
                    **headers,
                    **self._token.headers(),
                },
                body=body,
                timeout=timeout,
                is_repeatable=is_repeatable,
            )
            if answer.status != 401 or not self._token.refresh():
                return answer

    def _decode(self, request: Request[A], answer: HttpAnswer) -> A:
        try:
            if answer.content_type == CONTENT_TYPE:
                return decode_answer(request, answer.body)
            reason = f"the content type {answer.content_type[:100]!r}"
        except msgspec.MsgspecError as error:
            reason = str(error)
        raise StoreUnavailable(f"{self._address.shown}: wanted an answer of a Holdfast service, got {reason}")

    def _error_of(self, verb: str, answer: HttpAnswer) -> HoldfastError:
        """Return the error of an answer that will not change by itself."""
        problem = _read_problem(answer)
        if problem.error is not None:
            error = read_error(ErrorFacts(problem.error, problem.facts))
            if error is not None:
                return error
        shown = f"{self._address.shown} answered {answer.status}"
        match answer.status:
            case 401:
                return StoreUnavailable(f"{shown}: it refused the token")
            case 403:
                return Unsupported("http", verb, problem.detail or "the token does not allow it")
            case 400 | 413 | 422:
                return InvalidInput(verb, wanted=problem.detail or "a call that the service accepts", got="another")
            case _:
                return StoreUnavailable(f"{shown}: {problem.detail or problem.code or 'no Holdfast service'}")

    def _busy_error(self, answer: HttpAnswer, waited: float) -> HoldfastError:
        problem = _read_problem(answer)
        if problem.code == "store_unavailable":
            return StoreUnavailable(f"{self._address.shown}: the store of the service cannot be used now")
        return StoreBusy(waited)


def _read_problem(answer: HttpAnswer) -> _Problem:
    if not answer.content_type.startswith(PROBLEM_TYPE):
        return _Problem()
    try:
        return msgspec.json.decode(answer.body, type=_Problem)
    except msgspec.MsgspecError:
        return _Problem()
