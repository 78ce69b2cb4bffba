"""The settings of an installation: ``holdfast.toml``, then ``HOLDFAST_*`` variables, then arguments.

They are read once, where a program starts. Every value keeps its origin. An unknown key or a wrong type is an error
that says what was wanted, what was got, and where.

A store can have a name, so that no URL has to be in code, in commands or in plans of Spark: ``store:prod`` is the URL
of the store that ``[stores.prod]`` of the file or ``HOLDFAST_STORES_PROD_URL`` describes. Each process resolves the
name with its own settings.
"""

from __future__ import annotations

from holdfast.settings.fields import NAMES, check_program, is_plain_path
from holdfast.settings.masking import mask_secrets
from holdfast.settings.named_stores import NamedStore, named_store_url, store_name_of
from holdfast.settings.names import CONFIG, FILE_NAME, PREFIX
from holdfast.settings.reader import read, unknown_variables
from holdfast.settings.values import DEFAULT_ORIGIN, LogFormat, LogLevel, QueueTable, Settings, SigningMode

__all__ = [
    "CONFIG",
    "DEFAULT_ORIGIN",
    "FILE_NAME",
    "NAMES",
    "PREFIX",
    "LogFormat",
    "LogLevel",
    "NamedStore",
    "QueueTable",
    "Settings",
    "SigningMode",
    "check_program",
    "is_plain_path",
    "mask_secrets",
    "named_store_url",
    "read",
    "store_name_of",
    "unknown_variables",
]
