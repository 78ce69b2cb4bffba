"""How the settings of callbacks are read, checked and documented: the table ``[webhooks]`` of the file."""

from __future__ import annotations

from holdfast.model.secret import Secret
from holdfast.model.webhook_secret import parse_secrets
from holdfast.net.addresses import parse_network
from holdfast.net.urls import parse_pattern
from holdfast.settings.setting import Setting, check_path, check_secret, list_setting

WEBHOOKS = "webhooks"  # the table; elsewhere its settings have this word and an underscore before their names


def _check_secrets(name: str, value: str) -> Secret:
    parse_secrets(name, value.split(","))
    return check_secret(name, value)


WEBHOOK_SETTINGS: dict[str, Setting] = {
    "secret": Setting(
        check=_check_secrets,
        kind="secrets with commas",
        meaning="each one signs the callbacks of the space of the settings: `whsec_` and base64",
    ),
    "secrets_file": Setting(check=check_path, kind="path", meaning="the secrets of other spaces"),
    "urls": list_setting(parse_pattern, kind="URL patterns", meaning="where callbacks and notifications may go"),
    "networks": list_setting(parse_network, kind="networks", meaning="private networks that they may reach"),
    "ca_file": Setting(
        check=check_path,
        kind="path",
        meaning="authorities of the receivers' certificates (PEM), instead of those of the system",
    ),
}
