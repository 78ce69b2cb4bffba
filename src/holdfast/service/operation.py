"""``Operation``: one call of the API. Routes and the OpenAPI document are both made from the same list of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.service.auth.principal import Principal, Scope
from holdfast.service.limits import Receive
from holdfast.service.problems import Code
from holdfast.service.tenants.tenant import Tenant

if TYPE_CHECKING:
    from holdfast.service.service import Service


EVENT_STREAM = "text/event-stream"


class ClientConnection:
    """The connection of a request whose body was read."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.has_gone = False  # known only while ``gone`` is awaited

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_gone = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, checked: who calls, in which space, and with what."""

    service: Service
    principal: Principal
    tenant: Tenant
    path: Mapping[str, str]
    body: Any  # of the type ``Operation.body``; a ``BodyStream`` if the operation takes an upload
    query: Any  # of the type ``Operation.query``
    headers: Any  # of the type ``Operation.headers``
    is_head: bool  # the answer will be sent without its content
    accept: str
    document: Mapping[str, Any]  # of OpenAPI
    client: ClientConnection
    base_url: str  # of the service, as this client knows it
    is_still_allowed: Callable[[], Awaitable[bool]]  # whether the token still allows the call, for one that goes on

    def ends(self) -> Callable[[], Awaitable[None]]:
        """Return a function that waits until a waiting call should end: its client has gone, or the service stops."""
        return lambda: self.service.ends(self.client.gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answer of an operation; None is no body.

    ``content`` is a message, or bytes of ``content_type``, which may come one by one.
    """

    content: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"


Handler: TypeAlias = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call. ``path`` is without the version; ``answers`` are the types by status, None for no body."""

    name: str
    method: str
    path: str
    summary: str
    handler: Handler
    answers: Mapping[int, Any]
    scope: Scope | None = None  # None: no token is needed
    body: type | None = None
    body_items: type | None = None  # of a batch whose items are checked one by one
    query: type | None = None
    headers: type | None = None  # a message whose fields are headers
    upload: str | None = None  # the type of a body that is bytes, which the handler reads as they arrive
    binary: str | None = None  # the type of a body and of an answer that are bytes
    problems: tuple[Code, ...] = ()  # besides those of every operation
    versioned: bool = True  # the path has /v1 before it, and an alias without
    settles: bool = False  # ends or extends leases: refused last when the service is busy
    audited: bool = False  # an action of an operator, which is logged
    event_stream: bool = False  # the answer is server-sent events; its type is that of the data of each event
    links: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by operation: what its first answer leads to

    @property
    def full_path(self) -> str:
        """The path as the OpenAPI document names it."""
        return f"/v1{self.path}" if self.versioned else self.path
