"""The log of what operators do with domains. ``observability.events`` describes the events."""

from __future__ import annotations

import logging

from holdfast.model.control_characters import quote

log = logging.getLogger("holdfast.domains")


def log_domain_action(event: str, queue: str, domain: str, **others: object) -> None:
    """Log one action. Fields that are None are left out."""
    fields = {"queue": queue, "domain": domain, **{name: one for name, one in others.items() if one is not None}}
    text = " ".join(f"{name}={quote(str(value))}" for name, value in fields.items())
    log.warning("%s %s", event, text, extra={"event": event, **fields})
