"""``WebhookSettings``: the settings of callbacks, ``[webhooks]`` in ``holdfast.toml`` or ``HOLDFAST_WEBHOOKS_*``."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.secret import Secret

DEFAULT_URLS = ("https://*",)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Which secrets sign callbacks and notifications, and where they may go. Without a secret nothing is sent."""

    secret: Secret | None = None  # of the space of the settings: with commas between several, each one signs
    secrets_file: str | None = None  # of other spaces: see ``webhooks.secrets``
    urls: tuple[str, ...] = DEFAULT_URLS  # scheme://host[:port]/prefix
    networks: tuple[str, ...] = ()  # private networks that deliveries may reach
    ca_file: str | None = None  # authorities whose certificates receivers have; without it, those of the system
