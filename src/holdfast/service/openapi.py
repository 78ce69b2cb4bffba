"""The OpenAPI 3.1 document, made from the operations and their types. Clients can be generated from it."""

from __future__ import annotations

import re
import types
from collections import defaultdict
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any, Literal, get_args

import msgspec

from holdfast.drivers.http.protocol import VERBS
from holdfast.service.auth.principal import Scope
from holdfast.service.lease_calls import MIN_LEASE_SECONDS
from holdfast.service.operation import EVENT_STREAM, Operation
from holdfast.service.problems import CONTENT_TYPE, Code, status_of
from holdfast.service.schemas.fields import ArtifactName, Name
from holdfast.service.schemas.problem import ProblemDetails
from holdfast.settings.serve import ServeSettings

REF = "#/components/schemas/{name}"
OPENAPI_VERSION = "3.1.0"

ALWAYS = (
    Code.INVALID_REQUEST,
    Code.INVALID_HTTP,
    Code.TIMEOUT,
    Code.BODY_TOO_LARGE,
    Code.URI_TOO_LONG,
    Code.HEADERS_TOO_LARGE,
    Code.INTERNAL_ERROR,
    Code.OVERLOADED,
)
OCTETS = "application/octet-stream"
BINARY = {"type": "string", "format": "binary"}
PATH_TYPES: dict[str, Any] = {"artifact": ArtifactName, "verb": Literal[tuple(VERBS)]}  # of the others, ``Name``
WITH_PATH = (Code.NOT_FOUND,)
WITH_TOKEN = (Code.UNAUTHENTICATED, Code.FORBIDDEN, Code.AUTH_UNAVAILABLE)
WITH_SCOPE = (Code.RATE_LIMITED,)
WITHOUT_TOKEN = (Code.WRONG_HOST,)
WITH_BODY = (Code.INVALID_JSON, Code.UNSUPPORTED_MEDIA_TYPE)
WITH_STORE = (Code.STORE_BUSY, Code.STORE_UNAVAILABLE, Code.UNSUPPORTED)


def make_document(operations: Sequence[Operation], settings: ServeSettings, *, has_tokens: bool) -> dict[str, Any]:
    """Return the document of a service that has these operations and settings."""
    schemas, components = _schemas(operations)
    _set_lease_bounds(components, settings)
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for operation in operations:
        described = _operation(operation, schemas, components, has_tokens=has_tokens)
        paths[operation.full_path][operation.method.lower()] = described
    document: dict[str, Any] = {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "Holdfast",
            "version": version("holdfast"),
            "description": "A lease-based job queue. Every path with /v1 has an alias without it.",
        },
        "paths": dict(paths),
        "components": {"schemas": components},
    }
    if has_tokens:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


def _kinds(operation: Operation) -> Iterable[Any]:
    """Return the types of the messages of an operation; those of a union one by one."""
    for kind in (operation.body, operation.body_items, operation.query, operation.headers, *operation.answers.values()):
        if isinstance(kind, types.UnionType):
            yield from get_args(kind)
        elif kind is not None:
            yield kind


def _schemas(operations: Iterable[Operation]) -> tuple[dict[Any, dict[str, Any]], dict[str, Any]]:
    """Return the schema of each type, and the named schemas that they refer to."""
    kinds = [ProblemDetails, *dict.fromkeys(kind for operation in operations for kind in _kinds(operation))]
    found, components = msgspec.json.schema_components(kinds, ref_template=REF)
    return dict(zip(kinds, found, strict=True)), components


def _set_lease_bounds(components: dict[str, Any], settings: ServeSettings) -> None:
    """Write the bounds of the settings into the schemas of requests that ask for a lease or wait."""
    for name in ("ClaimRequest", "Heartbeat"):
        for choice in components[name]["properties"]["leaseSeconds"]["anyOf"]:
            if choice["type"] == "number":
                choice.pop("exclusiveMinimum", None)
                choice["minimum"] = MIN_LEASE_SECONDS
                choice["maximum"] = settings.max_lease.total_seconds()
    most = settings.max_wait.total_seconds()
    components["ClaimRequest"]["properties"]["waitSeconds"]["maximum"] = most
    components["ResultQuery"]["properties"]["wait"]["maximum"] = most


def _operation(
    operation: Operation, schemas: dict[Any, dict[str, Any]], components: dict[str, Any], *, has_tokens: bool
) -> dict[str, Any]:
    needs_token = has_tokens and operation.scope is not None
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {str(status): _answer(operation, kind, schemas) for status, kind in operation.answers.items()},
    }
    if operation.links:
        links = {name: {"operationId": name, **link} for name, link in operation.links.items()}
        described["responses"][str(next(iter(operation.answers)))]["links"] = links
    if needs_token:
        wanted = "the role admin" if operation.scope is Scope.ADMIN else f"the scope {operation.scope}"
        described["description"] = f"Needs a token with {wanted}."
        described["security"] = [{"token": []}]
    if parameters := _parameters(operation, components):
        described["parameters"] = parameters
    if operation.body is not None:
        schema = dict(schemas[operation.body])
        if operation.body_items is not None:
            _set_items(components, operation, schemas)
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if operation.upload is not None:
        described["requestBody"] = {"required": True, "content": {operation.upload: {"schema": BINARY}}}
    if operation.binary is not None:
        described["requestBody"] = {"required": True, "content": {operation.binary: {"schema": BINARY}}}
    described["responses"] |= _problems(operation, needs_token=needs_token, has_tokens=has_tokens)
    return described


def _set_items(components: dict[str, Any], operation: Operation, schemas: dict[Any, dict[str, Any]]) -> None:
    """Name the type of the items of a batch. The service reads any items, to answer each one by itself."""
    assert operation.body is not None
    [items] = [one for one in components[operation.body.__name__]["properties"].values() if one.get("type") == "array"]
    items["items"] = schemas[operation.body_items]


def _answer(operation: Operation, kind: Any, schemas: dict[Any, dict[str, Any]]) -> dict[str, Any]:
    if kind is None:
        return {"description": "Nothing"}
    if operation.event_stream:
        return {"description": operation.summary, "content": {EVENT_STREAM: {"schema": _event(schemas[kind])}}}
    if kind is bytes:
        return {"description": operation.summary, "content": {operation.binary or OCTETS: {"schema": BINARY}}}
    if kind is str:
        return {"description": operation.summary, "content": {"text/plain": {"schema": schemas[kind]}}}
    schema = {"oneOf": [schemas[one] for one in get_args(kind)]} if isinstance(kind, types.UnionType) else schemas[kind]
    return {"description": operation.summary, "content": {"application/json": {"schema": schema}}}


def _event(data: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of one server-sent event, which OpenAPI 3.1 has in the place of the stream."""
    nothing = {"type": "object", "maxProperties": 0}  # the data of the event ``trimmed``
    return {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "event": {"type": "string"},
            "data": {
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": {"anyOf": [data, nothing]},
            },
        },
    }


def _parameters(operation: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": msgspec.json.schema(PATH_TYPES.get(name, Name))}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    if operation.query is not None:
        query = components[operation.query.__name__]
        for name, schema in query["properties"].items():
            required = name in query.get("required", ())
            parameters.append({"name": name, "in": "query", "required": required, "schema": _without_null(schema)})
    if operation.headers is not None:
        headers = components[operation.headers.__name__]
        for name, schema in headers["properties"].items():
            required = name in headers.get("required", ())
            parameters.append({"name": name, "in": "header", "required": required, "schema": _without_null(schema)})
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter is left out, not null."""
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return choices[0] if len(choices) == 1 else {name: value for name, value in schema.items() if value is not None}


def _problems(operation: Operation, *, needs_token: bool, has_tokens: bool) -> dict[str, Any]:
    """Return the problems by status; each names its codes."""
    codes = [*ALWAYS, *operation.problems]
    codes += WITH_TOKEN if needs_token else () if has_tokens else WITHOUT_TOKEN
    codes += WITH_SCOPE if operation.scope is not None else ()
    codes += WITH_PATH if "{" in operation.path else ()
    codes += WITH_BODY if operation.body is not None else ()
    codes += (Code.UNSUPPORTED_MEDIA_TYPE,) if operation.binary is not None else ()
    codes += WITH_STORE if operation.versioned else ()
    by_status: defaultdict[int, list[str]] = defaultdict(list)
    for code in dict.fromkeys(codes):
        by_status[status_of(code)].append(code)
    schema = {"$ref": REF.format(name=ProblemDetails.__name__)}
    return {
        str(status): {"description": " or ".join(named), "content": {CONTENT_TYPE: {"schema": schema}}}
        for status, named in sorted(by_status.items())
        if status not in operation.answers
    }
