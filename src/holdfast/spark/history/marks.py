"""The marks of commits that the store keeps: the newest commit of each history that reads the store.

An audit compares a history with its mark, and so finds that its newest commits were removed. Runs on the Spark driver.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict

import msgspec

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read
from holdfast.drivers.store import Store
from holdfast.model.registry import Change
from holdfast.spark.history.folder import Folder
from holdfast.spark.history.manifest import CommitMark

KIND = "history.commit"


def reader_name(folder: Folder) -> str:
    """Return the name of a history in the registry of its store. It depends on the folder's full path."""
    return f"history:{hashlib.blake2b(folder.root.encode(), digest_size=8).hexdigest()}"


def register_mark(folder: Folder, mark: CommitMark) -> Change:
    """Return the change that stores the mark of the newest commit."""
    return Change(kind=KIND, key=reader_name(folder), value=msgspec.json.encode(asdict(mark)))


def read_mark(store: Store, folder: Folder) -> CommitMark | None:
    """Return the mark of the commit that the last sync made; None if the store has none."""
    if not store.capabilities.has(Feature.REGISTRY):
        return None
    [entry] = store.do(Read(kind=KIND, keys=[reader_name(folder)]))
    return None if entry is None or entry.value is None else msgspec.json.decode(entry.value, type=CommitMark)
