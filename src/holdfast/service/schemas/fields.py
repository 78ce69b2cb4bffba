"""The types of fields that several messages share."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.clock import to_datetime
from holdfast.model import bounds

MAX_BATCH_TASKS = 1000  # in one request
MAX_CLAIM_TASKS = 100  # in one claim
MAX_CLAIM_NAMES = 100  # commands or queues of one claim
MAX_DELAY_SECONDS = 31_536_000  # a year
MAX_TOKEN_CHARACTERS = 256
MAX_ARTIFACT_NAME_BYTES = 128
MAX_TASK_ARTIFACTS = 100  # whatever the settings say: all artifacts of a task are one entry of the registry
MAX_ERROR_CHARACTERS = 65_536  # that are read; the store keeps bounds.MAX_ERROR_CHARACTERS of them

Name = Annotated[str, Meta(pattern="^[A-Za-z0-9._:-]{1,128}$", max_length=bounds.MAX_NAME_CHARACTERS)]
ArtifactName = Annotated[str, Meta(pattern=r'^[^/\\%"\x00-\x1f\x7f]{1,128}$', max_length=MAX_ARTIFACT_NAME_BYTES)]
Text = Annotated[str, Meta(min_length=1, max_length=bounds.MAX_TEXT_BYTES)]
ErrorText = Annotated[str, Meta(max_length=MAX_ERROR_CHARACTERS)]
Instant = Annotated[datetime, Meta(tz=True)]
DelaySeconds = Annotated[float, Meta(ge=0, le=MAX_DELAY_SECONDS)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=MAX_DELAY_SECONDS)]
Offset = Annotated[int, Meta(ge=0, le=bounds.MAX_OFFSET)]
WebhookUrl = Annotated[str, Meta(pattern="^https?://", max_length=bounds.MAX_URL_CHARACTERS)]
JsonValue = msgspec.Raw  # any JSON value, as a store keeps it
LeaseToken = Annotated[str, Meta(min_length=1, max_length=MAX_TOKEN_CHARACTERS)]


class Request(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A message that a client sends. Unknown fields are refused."""


class Answer(msgspec.Struct, kw_only=True, rename="camel"):
    """A message that the service sends. Clients ignore fields that they do not know."""


def stored_json(value: JsonValue) -> bytes | None:
    """Return a value for a store; None for null, and for a field that was left out."""
    data = bytes(value)
    return None if data in {b"", b"null"} else data


@lru_cache(maxsize=1024)  # a batch has few different ones: tasks that were created, or are leased, together
def instant(value: int | None) -> datetime | None:
    """Return an instant of the store as it is sent."""
    return None if value is None else to_datetime(value)
