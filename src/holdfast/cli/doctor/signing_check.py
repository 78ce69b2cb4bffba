"""Check of the signing keys: a process that signs or verifies needs one."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.cli.doctor.check import Check, Health
from holdfast.cli.session import Session
from holdfast.errors import InvalidInput
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.settings import SigningMode
from holdfast.signing import open_keys


def check_signing(session: Session) -> Iterator[Check]:
    """Whether jobs of the default queue can be signed, if signing is on."""
    settings = session.settings
    if settings.signing is SigningMode.OFF:
        return
    try:
        key = open_keys(settings, settings.signing).current().signing_key(DEFAULT_QUEUE)
    except InvalidInput as error:
        yield Check(name="signing", health=Health.WRONG, text=str(error))
        return
    if key is None:
        text = f"signing = {settings.signing}, and no key can sign jobs of the queue {DEFAULT_QUEUE}"
        yield Check(name="signing", health=Health.WRONG, text=text, advice="run holdfast keys rotate")
        return
    yield Check(name="signing", health=Health.OK, text=f"{settings.signing}: the key {key.id} signs")
