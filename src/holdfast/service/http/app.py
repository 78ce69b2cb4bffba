"""The ASGI application: one endpoint per path, which checks a request, calls its operation and sends the answer.

The order of the checks: method, host, token, scope, number of requests, rate, size and time of the body, JSON. So a
request takes none of the places of ``serve_max_requests`` while its token is checked.
"""

from __future__ import annotations

import ipaddress
import itertools
import secrets
import traceback
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.clock import monotonic
from holdfast.drivers.http.protocol import MAX_CALL_BYTES
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.log import events
from holdfast.log.records import log_event, log_failure
from holdfast.model import bounds
from holdfast.service.auth.principal import Principal
from holdfast.service.http import json_body
from holdfast.service.http.request_head import check_head
from holdfast.service.limits import LARGE_BODY_BYTES, BodyStream, CountedRequest, receive_body
from holdfast.service.openapi import make_document
from holdfast.service.operation import Call, ClientConnection, Operation, Reply
from holdfast.service.problems import BUSY_SECONDS, CONTENT_TYPE, Code, Problem, problem_of
from holdfast.service.routes import OPERATIONS
from holdfast.service.service import Service

REQUEST_ID = "X-Request-Id"
JSON_TYPE = "application/json"
SPARE = "holdfast.spare"  # in the state of a connection above the limit: only probes are answered there
MAX_QUERY_CHARACTERS = 8_192
MAX_QUERY_PARAMETERS = 50

_PROCESS = secrets.token_hex(4)  # of request ids: a random id for each request would be a call of the system
_REQUESTS = itertools.count(1)

_encode = msgspec.json.Encoder().encode


class App:
    """The ASGI application of a service, which it starts and stops."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._fixed: dict[str, Endpoint] = {}  # by path, of the paths without parameters
        self._variable: defaultdict[int, list[tuple[Sequence[str], Endpoint]]] = defaultdict(list)  # by segments
        by_path: defaultdict[str, dict[str, Operation]] = defaultdict(dict)
        for operation in OPERATIONS:
            for path in (operation.full_path, operation.path):  # the alias without a version
                by_path[path][operation.method] = operation
        document = make_document(OPERATIONS, service.serve, has_tokens=not service.authenticator.is_open)
        for path, operations in by_path.items():
            endpoint, segments = Endpoint(service, operations, document), path.split("/")
            if "{" in path:
                self._variable[len(segments)].append((segments, endpoint))
            else:
                self._fixed[path] = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or start and stop the service.

        The last answer of a connection says so: else the client would lose the request that it sends next.
        """
        if scope["type"] == "lifespan":
            await self._run_service(receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and (SPARE in scope["state"] or self._service.is_draining):
                others = [header for header in message["headers"] if header[0] != b"connection"]
                message["headers"] = [*others, (b"connection", b"close")]
            await send(message)

        try:
            check_head(scope)
            endpoint = self._find(scope)
        except Problem as problem:
            await _problem_response(problem, _request_id(scope))(scope, receive, answer)
        else:
            await endpoint(scope, receive, answer)

    def _find(self, scope: Scope) -> Endpoint:
        """Return the endpoint of a path, and note the parameters of the path. Raises ``Problem``."""
        path: str = scope["path"]
        scope["path_params"] = {}
        if (fixed := self._fixed.get(path)) is not None:
            return fixed
        given = path.split("/")
        for segments, endpoint in self._variable.get(len(given), ()):
            found = {}
            for segment, value in zip(segments, given, strict=True):
                if segment.startswith("{") and value:
                    found[segment[1:-1]] = value
                elif segment != value:
                    break
            else:
                scope["path_params"] = found
                return endpoint
        raise Problem(Code.NOT_FOUND)

    async def _run_service(self, receive: Receive, send: Send) -> None:
        """Start the service, and stop it when the server does. A failure ends the server: it says why."""
        await receive()
        try:
            await self._service.start()
        except Exception:
            await send({"type": "lifespan.startup.failed", "message": traceback.format_exc()})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._service.stop()
        await send({"type": "lifespan.shutdown.complete"})


class Endpoint:
    """The operations of one path, by method."""

    def __init__(self, service: Service, operations: Mapping[str, Operation], document: Mapping[str, Any]) -> None:
        self._service = service
        self._document = document
        self._operations = {**operations}
        if "GET" in operations:
            self._operations["HEAD"] = operations["GET"]
        self._allow = ", ".join(sorted(self._operations))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        began, request_id = monotonic(), _request_id(scope)
        operation = self._operations.get(scope["method"])
        try:
            response = await self._answer(operation, scope, receive, request_id)
        except Problem as problem:
            response = _problem_response(problem, request_id)
        except HoldfastError as error:
            response = _problem_response(problem_of(error), request_id)
        except Exception as error:  # noqa: BLE001 - the client gets an answer without a traceback
            name = "" if operation is None else operation.name
            log_failure(events.HTTP_FAILED, error, operation=name, request_id=request_id)
            response = _problem_response(Problem(Code.INTERNAL_ERROR), request_id)
        if operation is not None:
            self._service.metrics.count(operation.name, response.status_code, monotonic() - began)
        await response(scope, receive, send)

    async def _answer(self, operation: Operation | None, scope: Scope, receive: Receive, request_id: str) -> Response:
        """Return the answer of an operation. Raises ``Problem``."""
        if operation is None:
            raise Problem(Code.METHOD_NOT_ALLOWED, f"wanted {self._allow}", headers={"Allow": self._allow})
        if SPARE in scope["state"] and operation.scope is not None:
            raise Problem(Code.OVERLOADED, "too many connections", retry_after=BUSY_SECONDS)
        headers = _headers(scope)
        principal = await self._authenticate(operation, scope, headers)
        caller, unsent = (principal.space, principal.subject), self._service.unsent
        if operation.scope is not None and not operation.settles:
            unsent.check(caller)
        with self._service.requests.counted(settles=operation.settles) as counted:
            call = await self._check(operation, scope, receive, headers=headers, principal=principal, counted=counted)
            reply = await operation.handler(call)
        if operation.audited:
            _log_action(operation, call, reply, request_id)
        response = _response(reply, request_id)
        if isinstance(response, StreamingResponse) or len(response.body) <= LARGE_BODY_BYTES:
            return response
        if (
            operation.method == "GET"
        ):  # many may have been answered meanwhile; a claim that is refused now would be lost
            unsent.check(caller)
        return _LargeResponse(response, unsent.counted(caller, len(response.body)))

    async def _authenticate(self, operation: Operation, scope: Scope, headers: Mapping[str, str]) -> Principal:
        """Return the caller, who may call the operation. Raises ``Problem``."""
        authenticator = self._service.authenticator
        if authenticator.is_open:
            _check_loopback_host(headers.get("host", ""))
        elif operation.scope is not None:
            count = sum(name == b"authorization" for name, _ in scope["headers"])
            principal = await authenticator.authenticate(headers, count=count)
            if not principal.may(operation.scope):
                raise Problem(Code.FORBIDDEN, f"wanted a token with the scope {operation.scope}")
            return principal
        return authenticator.anonymous

    async def _check(
        self,
        operation: Operation,
        scope: Scope,
        receive: Receive,
        *,
        headers: Mapping[str, str],
        principal: Principal,
        counted: CountedRequest,
    ) -> Call:
        """Return the request of a caller. Raises ``Problem``."""
        service = self._service
        if operation.scope is not None:  # else a probe, which nobody may use up
            service.rate_limit.count((principal.space, principal.subject, operation.scope))
        return Call(
            service=service,
            principal=principal,
            tenant=service.tenant(principal.space),
            path=_path(scope["path_params"]),
            query=_query(operation, scope),
            headers=None if operation.headers is None else json_body.read_headers(scope["headers"], operation.headers),
            is_head=scope["method"] == "HEAD",
            body=await self._body(operation, headers, receive, counted),
            accept=headers.get("accept", ""),
            document=self._document,
            client=ClientConnection(receive),
            base_url=service.serve.public_url or f"{scope['scheme']}://{headers.get('host', '')}",
            is_still_allowed=partial(_is_still_allowed, service, operation, headers, principal),
        )

    async def _body(
        self, operation: Operation, headers: Mapping[str, str], receive: Receive, counted: CountedRequest
    ) -> Any:
        """Return the message of a request. Raises ``Problem``."""
        length = headers.get("content-length")
        if operation.upload is not None:
            if headers.get("content-encoding", "identity").lower() != "identity":
                raise Problem(Code.UNSUPPORTED_MEDIA_TYPE, "wanted a body that is not compressed")
            return BodyStream(
                receive,
                length=int(length) if length and length.isdecimal() else None,
                content_type=headers.get("content-type", ""),
                timing=self._service.timing,
            )
        if operation.binary is not None and headers.get("content-type") != operation.binary:
            raise Problem(Code.UNSUPPORTED_MEDIA_TYPE, f"wanted Content-Type: {operation.binary}")
        most = self._service.serve.max_body_bytes if operation.body is not None else 0
        if operation.binary is not None:
            most = MAX_CALL_BYTES
        known = int(length) if length and length.isdecimal() else None
        timing = self._service.timing
        data = await receive_body(receive, length=known, most=most, counted=counted, timing=timing)
        if operation.body is None:
            return None if operation.binary is None else data
        if headers.get("content-encoding", "identity").lower() != "identity" or not _is_json(headers):
            raise Problem(Code.UNSUPPORTED_MEDIA_TYPE, "wanted Content-Type: application/json, not compressed")
        if len(data) > LARGE_BODY_BYTES:
            return await self._service.calls.parse(json_body.read_large_body, data, operation.body)
        return json_body.read_body(data, operation.body)


def _log_action(operation: Operation, call: Call, reply: Reply, request_id: str) -> None:
    log_event(
        events.HTTP_OPERATOR,
        operation=operation.name,
        subject=call.principal.subject,
        space=call.principal.space,
        target=call.path.get("queue")
        or call.path.get("schedule")
        or call.path.get("verb")
        or ",".join(getattr(call.body, "task_ids", ())),
        domain=getattr(call.body, "domain", None),
        status=reply.status,
        request_id=request_id,
    )


async def _is_still_allowed(
    service: Service, operation: Operation, headers: Mapping[str, str], principal: Principal
) -> bool:
    """Whether the token of a request that goes on still allows it, in the same space and with the same role."""
    if service.authenticator.is_open or operation.scope is None:
        return True
    try:
        found = await service.authenticator.authenticate(headers, count=1)
    except Problem:
        return False
    return found.may(operation.scope) and (found.space, found.is_admin) == (principal.space, principal.is_admin)


# Parts of a request -----------------------------------------------------------------------------------------


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers; of repeated ones the last."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _request_id(scope: Scope) -> str:
    """Return the id that the client has sent if it is a plain name, else a new one. The same for the whole request."""
    found = scope.get("holdfast.request_id")
    if found is None:
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        with suppress(InvalidInput):
            found = None if given is None else bounds.check_new_name(REQUEST_ID, given.decode("latin-1"))
        found = found or f"{_PROCESS}{next(_REQUESTS):08x}"
        scope["holdfast.request_id"] = found
    return str(found)


def _check_loopback_host(host: str) -> None:
    """Refuse the name of another host, for a service without tokens.

    A web page that points its own name to loopback (DNS rebinding) sends such a name.
    """
    if not _is_loopback(host):
        raise Problem(Code.WRONG_HOST, "wanted localhost or a loopback address, because no token is needed")


@lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    try:
        return name == "localhost" or ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_json(headers: Mapping[str, str]) -> bool:
    kind, _, parameters = headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    return kind.strip().lower() == JSON_TYPE and charset in {"", "utf-8"}


def _path(parameters: Mapping[str, str]) -> Mapping[str, str]:
    """Return the parameters of the path. An id that nothing can have is a 404."""
    for field, thing in (("task_id", "task"), ("subscription_id", "subscription"), ("schedule", "schedule")):
        if field in parameters:
            try:
                bounds.check_new_name(field, parameters[field])
            except InvalidInput:
                raise Problem(Code.NOT_FOUND, f"there is no such {thing}") from None
    return parameters


def _query(operation: Operation, scope: Scope) -> Any:
    text = scope["query_string"].decode("latin-1")
    if len(text) > MAX_QUERY_CHARACTERS:
        raise Problem(Code.INVALID_REQUEST, f"wanted at most {MAX_QUERY_CHARACTERS} characters in the query")
    try:
        parameters = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_PARAMETERS)
    except ValueError as error:
        raise Problem(Code.INVALID_REQUEST, "wanted parameters in UTF-8") from error
    if operation.query is None:
        if parameters:
            raise Problem(Code.INVALID_REQUEST, "wanted no parameters", field=parameters[0][0][:100])
        return None
    return json_body.read_query(parameters, operation.query)


# Answers ----------------------------------------------------------------------------------------------------

_SECURITY = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def _response(reply: Reply, request_id: str) -> Response:
    headers = {REQUEST_ID: request_id, **_SECURITY, **reply.headers}
    if reply.content is None:
        return Response(status_code=reply.status, headers=headers)
    if isinstance(reply.content, AsyncIterator):
        return StreamingResponse(
            reply.content, status_code=reply.status, headers=headers, media_type=reply.content_type
        )
    content = reply.content if isinstance(reply.content, bytes) else _encode(reply.content)
    return Response(content, status_code=reply.status, headers={**headers, "Content-Type": reply.content_type})


class _LargeResponse(Response):
    """A response that is counted until its client has read nearly all of it."""

    def __init__(self, response: Response, counted: AbstractContextManager[None]) -> None:
        super().__init__(response.body, response.status_code, response.headers)
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        with self._counted:
            body, self.body = self.body, b""
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await send({"type": "http.response.body", "body": body, "more_body": True})
            del body
            await send({"type": "http.response.body", "body": b""})  # it waits until the body is sent


def _problem_response(problem: Problem, request_id: str) -> Response:
    headers = {REQUEST_ID: request_id, **_SECURITY, **problem.headers, "Content-Type": CONTENT_TYPE}
    return Response(_encode(problem.details(request_id)), status_code=problem.status, headers=headers)
