"""The keys of this process, and the signer that the settings want.

The keys are those of ``signing_key``, else those of the file ``signing_key_file``. Each process reads its own: a key is
in no plan of Spark, in no pickle and in no log.
"""

from __future__ import annotations

from holdfast import settings as all_settings
from holdfast.errors import InvalidInput
from holdfast.key_file import KeyFile
from holdfast.settings import Settings, SigningMode
from holdfast.wire.signing import KeyRing, KeySource, Signer, SigningKey

__all__ = ["Signer", "open_signer"]


def open_signer(
    settings: Settings | None = None, *, space: str = "main", at_least: SigningMode = SigningMode.OFF
) -> Signer | None:
    """Return the signer of a space as the settings want it; None if signing is off. For ``Client`` and ``Worker``.

    Without ``settings``, they are read: ``holdfast.toml``, then ``HOLDFAST_*`` variables. ``at_least`` is the mode of
    the process that started this one: the stricter mode counts. Raises ``InvalidInput`` if signing is on and this
    process has no key.
    """
    settings = settings or all_settings.read()
    mode = max(settings.signing, at_least, key=list(SigningMode).index)
    if mode is SigningMode.OFF:
        return None
    return Signer(open_keys(settings, mode), space=space, required=mode is SigningMode.REQUIRED)


def open_keys(settings: Settings, mode: SigningMode) -> KeySource:
    """Return the keys that a mode of signing needs. Raises ``InvalidInput`` if there are none."""
    keys = read_keys(settings)
    if keys is None:
        wanted = (
            f"a key: {all_settings.PREFIX}SIGNING_KEY, or signing_key or signing_key_file in {all_settings.FILE_NAME}"
        )
        raise InvalidInput(f"signing = {mode}", wanted=wanted, got="none")
    return keys


def read_keys(settings: Settings) -> KeySource | None:
    """Return the keys of the settings; None if there are none. Raises ``InvalidInput`` for keys that cannot be used."""
    if settings.signing_key is not None and not settings.signing_key:
        settings = all_settings.read()  # these settings came from another process, without the key
    if settings.signing_key:
        secrets = [secret.strip() for secret in settings.signing_key.reveal().split(",") if secret.strip()]
        return KeyRing(SigningKey.from_secret(secret.encode()) for secret in reversed(secrets))  # the first one signs
    return None if settings.signing_key_file is None else KeyFile(settings.signing_key_file)
