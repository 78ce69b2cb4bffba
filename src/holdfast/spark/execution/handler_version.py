"""The version of a handler: a name that the user gives, or a hash of its code.

A run that continues an earlier one keeps the results of that one. If the handler has changed in between, the results
come from two versions. The registry keeps the versions of each run, and how many rows were done when each began.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from holdfast.drivers.requests import Read, Write
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.registry import Change

VERSION_KIND = "spark.version"  # registry: by queue, a list of _Version
VERSION_CHARACTERS = 12  # hexadecimal; enough to tell the versions of one handler apart


class _Version(msgspec.Struct, frozen=True):
    version: str
    done_before: int  # rows of the run that were done when this version began


def handler_version(handler: Callable[..., Any], given: str | None) -> str:
    """Return the given version, or a hash of the code of the handler, its defaults and the values it closes over.

    Functions that the handler calls are not part of the hash.
    """
    if given is not None:
        return bounds.check_text("version", given)
    digest = hashlib.blake2b(digest_size=VERSION_CHARACTERS // 2)
    for part in _parts(handler):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _parts(value: object) -> Iterator[str]:
    """Yield texts that change when the code changes, and that are the same in every process."""
    if isinstance(value, str | bytes | int | float | complex | None):
        yield repr(value)
    elif isinstance(value, type):
        yield value.__qualname__
    else:
        yield type(value).__qualname__
        for member in _members(value):
            yield from _parts(member)


def _members(value: object) -> Iterable[object]:
    """Return the parts of a value that are code, or that its code uses."""
    match value:
        case tuple() | list():
            return value
        case frozenset():  # of constants; without an order
            return sorted(map(repr, value))
        case partial():
            return (value.func, *value.args, *sorted(value.keywords.items()))
        case types.MethodType():
            return (value.__func__,)
        case types.FunctionType():
            return (value.__code__, value.__defaults__, value.__kwdefaults__, *_closed_over(value))
        case types.CodeType():
            return (value.co_code, value.co_names, value.co_varnames, value.co_consts)
        case _:
            call = getattr(type(value), "__call__", None)  # noqa: B004 - the function itself is wanted
            return (call,) if isinstance(call, types.FunctionType) else ()


def _closed_over(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            contents = cell.cell_contents
        except ValueError:  # empty: a function that is not defined yet
            continue
        yield None if contents is function else contents


# The versions of a run --------------------------------------------------------------------------------------


def begin_version(store: Store, queue: str, version: str, *, ttl: int) -> None:
    """Remember that results of this run come from this version from now on. Counts jobs only if it is a new version."""
    versions = _read(store, queue)
    if not versions or versions[-1].version != version:
        versions.append(_Version(version, _count_done(store, queue)))
    store.do(Write(changes=[Change(kind=VERSION_KIND, key=queue, value=msgspec.json.encode(versions), ttl=ttl)]))


def mixed_versions(store: Store, queue: str) -> dict[str, int]:
    """Return the versions that made results of this run, with their numbers of results; empty if it had only one."""
    versions = _read(store, queue)
    if len(versions) < 2:
        return {}
    ends = [each.done_before for each in versions[1:]] + [_count_done(store, queue)]
    counts: dict[str, int] = {}
    for each, end in zip(versions, ends, strict=True):
        counts[each.version] = counts.get(each.version, 0) + max(0, end - each.done_before)
    return {version: count for version, count in counts.items() if count}


def _count_done(store: Store, queue: str) -> int:
    """Return how many jobs of a queue are done."""
    return sum(row.done for row in store.counts([queue]))


def _read(store: Store, queue: str) -> list[_Version]:
    [entry] = store.do(Read(kind=VERSION_KIND, keys=[queue]))
    return [] if entry is None or entry.value is None else msgspec.json.decode(entry.value, type=list[_Version])
