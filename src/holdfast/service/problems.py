"""Errors as problem details (RFC 9457). ``Code`` is stable: clients decide by it, and people read the rest."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.errors import (
    ArtifactExists,
    ArtifactMissing,
    ArtifactQuota,
    HoldfastError,
    InvalidInput,
    JobNotFound,
    JobNotInflight,
    LeaseError,
    LeaseExpired,
    LeaseMismatch,
    PayloadTooLarge,
    StoreBusy,
    StoreError,
    StoreFull,
    Unsupported,
)
from holdfast.service.schemas.problem import ProblemDetails

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:holdfast:problem:"
BUSY_SECONDS = 1  # Retry-After of a store that is busy, and of a service that is
OUTAGE_SECONDS = 5  # of one that cannot be reached, or is full


class Code(StrEnum):
    """Every kind of problem."""

    INVALID_JSON = "invalid_json"
    INVALID_REQUEST = "invalid_request"
    INVALID_HTTP = "invalid_http"
    WRONG_HOST = "wrong_host"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TIMEOUT = "timeout"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    NOT_IN_PROGRESS = "not_in_progress"
    LEASE_MISMATCH = "lease_mismatch"
    LEASE_EXPIRED = "lease_expired"
    WRITE_REFUSED = "write_refused"
    SPACE_IN_USE = "space_in_use"
    ARTIFACT_EXISTS = "artifact_exists"
    ARTIFACT_MISSING = "artifact_missing"
    EVENTS_TRIMMED = "events_trimmed"
    BODY_TOO_LARGE = "body_too_large"
    QUOTA_EXCEEDED = "quota_exceeded"
    URI_TOO_LONG = "uri_too_long"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    DIGEST_MISMATCH = "digest_mismatch"
    UNSUPPORTED = "unsupported"
    RATE_LIMITED = "rate_limited"
    HEADERS_TOO_LARGE = "headers_too_large"
    INTERNAL_ERROR = "internal_error"
    OVERLOADED = "overloaded"
    AUTH_UNAVAILABLE = "auth_unavailable"
    STORE_BUSY = "store_busy"
    STORE_UNAVAILABLE = "store_unavailable"
    STORE_FULL = "store_full"
    ARTIFACTS_FULL = "artifacts_full"


_STATUS_AND_TITLE: dict[Code, tuple[int, str]] = {
    Code.INVALID_JSON: (400, "The body is not strict JSON"),
    Code.INVALID_REQUEST: (400, "A value is not allowed"),
    Code.INVALID_HTTP: (400, "The request is not HTTP/1.1"),
    Code.WRONG_HOST: (421, "The Host header names another host"),
    Code.UNAUTHENTICATED: (401, "The token is missing or not valid"),
    Code.FORBIDDEN: (403, "The token does not allow this"),
    Code.NOT_FOUND: (404, "There is nothing here"),
    Code.METHOD_NOT_ALLOWED: (405, "The method is not allowed here"),
    Code.TIMEOUT: (408, "The body did not arrive in time"),
    Code.IDEMPOTENCY_CONFLICT: (409, "The idempotency key or offset belongs to a task with another payload"),
    Code.NOT_IN_PROGRESS: (409, "The task is not in progress"),
    Code.LEASE_MISMATCH: (409, "Another lease holds the task"),
    Code.LEASE_EXPIRED: (409, "The lease has expired"),
    Code.WRITE_REFUSED: (409, "A registry entry has another version than wanted"),
    Code.SPACE_IN_USE: (409, "The space has jobs in flight"),
    Code.ARTIFACT_EXISTS: (409, "The attempt has another artifact with this name"),
    Code.ARTIFACT_MISSING: (409, "The attempt has not uploaded such an artifact"),
    Code.EVENTS_TRIMMED: (410, "The events were removed by retention"),
    Code.BODY_TOO_LARGE: (413, "The body is too large"),
    Code.QUOTA_EXCEEDED: (413, "The artifacts are too many or too large"),
    Code.URI_TOO_LONG: (414, "The URL is too long"),
    Code.UNSUPPORTED_MEDIA_TYPE: (415, "The body has another type than wanted"),
    Code.RANGE_NOT_SATISFIABLE: (416, "The artifact has no such bytes"),
    Code.DIGEST_MISMATCH: (422, "The bytes are not those of the digest"),
    Code.UNSUPPORTED: (422, "The store does not offer this"),
    Code.RATE_LIMITED: (429, "Too many requests with this token"),
    Code.HEADERS_TOO_LARGE: (431, "The headers are too large"),
    Code.INTERNAL_ERROR: (500, "The service failed"),
    Code.OVERLOADED: (503, "The service is busy"),
    Code.AUTH_UNAVAILABLE: (503, "Tokens cannot be checked now"),
    Code.STORE_BUSY: (503, "The store is busy"),
    Code.STORE_UNAVAILABLE: (503, "The store cannot be used now"),
    Code.STORE_FULL: (507, "The store accepts no new tasks"),
    Code.ARTIFACTS_FULL: (507, "The disk of the artifacts is full"),
}

_LEASE_CODES: dict[type[LeaseError], Code] = {
    JobNotInflight: Code.NOT_IN_PROGRESS,
    LeaseMismatch: Code.LEASE_MISMATCH,
    LeaseExpired: Code.LEASE_EXPIRED,
}


class Problem(Exception):
    """Ends a request with an error. Nothing was changed, unless the code is ``INTERNAL_ERROR``."""

    def __init__(
        self,
        code: Code,
        detail: str = "",
        *,
        field: str | None = None,
        task_id: str | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.code = code
        self.status, self.title = _STATUS_AND_TITLE[code]
        self.detail = detail
        self.field = field
        self.task_id = task_id
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(retry_after)
        super().__init__(f"{code}: {detail or self.title}")

    def details(self, request_id: str | None = None) -> ProblemDetails:
        """Return the body of the answer."""
        return ProblemDetails(
            type=f"{TYPE_PREFIX}{self.code}",
            title=self.title,
            status=self.status,
            code=self.code,
            detail=self.detail or self.title,
            field=self.field or msgspec.UNSET,
            task_id=self.task_id or msgspec.UNSET,
            request_id=request_id or msgspec.UNSET,
        )


def status_of(code: Code) -> int:
    """Return the HTTP status of a code."""
    return _STATUS_AND_TITLE[code][0]


def not_found(task_id: str) -> Problem:
    """Return the problem of an id that this space does not have, also if another space has it."""
    return Problem(Code.NOT_FOUND, "there is no such task", task_id=task_id)


def refused(error: LeaseError) -> Problem:
    """Return the problem of a worker's call that the store refused. A job that is unknown is a 404."""
    if isinstance(error, JobNotInflight) and error.state is None:
        return not_found(error.job_id)
    return Problem(
        _LEASE_CODES.get(type(error), Code.LEASE_MISMATCH), _LEASE_DETAILS[type(error)], task_id=error.job_id
    )


_LEASE_DETAILS: dict[type[LeaseError], str] = {
    JobNotInflight: "the task has ended, or waits to be claimed again; nothing was changed",
    LeaseMismatch: "the lease token is not that of the present lease; nothing was changed",
    LeaseExpired: "the lease ended before this call; nothing was changed; the task runs again if attempts are left",
}


def details_of(error: Problem | HoldfastError) -> ProblemDetails:
    """Return why an item of a batch was refused."""
    return (error if isinstance(error, Problem) else problem_of(error)).details()


def problem_of(error: HoldfastError) -> Problem:
    """Return the problem of an error of the store or of a check."""
    match error:
        case InvalidInput():
            code = Code.BODY_TOO_LARGE if isinstance(error, PayloadTooLarge) else Code.INVALID_REQUEST
            return Problem(code, f"wanted {error.wanted}", field=error.field)
        case JobNotFound():
            return not_found(error.job_id)
        case LeaseError():
            return refused(error)
        case ArtifactExists() | ArtifactMissing():
            code = Code.ARTIFACT_EXISTS if isinstance(error, ArtifactExists) else Code.ARTIFACT_MISSING
            return Problem(code, "nothing was changed", field=error.name, task_id=error.job_id)
        case ArtifactQuota():
            return Problem(Code.QUOTA_EXCEEDED, f"wanted at most {error.most} {error.unit} of the {error.owner}")
        case Unsupported():
            return Problem(Code.UNSUPPORTED, f"this store does not offer {error.feature}")
        case StoreBusy():
            return Problem(Code.STORE_BUSY, retry_after=BUSY_SECONDS)
        case StoreFull():
            return Problem(Code.STORE_FULL, retry_after=OUTAGE_SECONDS)
        case StoreError():  # no text of the error: it may name hosts and users
            return Problem(Code.STORE_UNAVAILABLE, retry_after=OUTAGE_SECONDS)
        case _:
            return Problem(Code.INTERNAL_ERROR)
