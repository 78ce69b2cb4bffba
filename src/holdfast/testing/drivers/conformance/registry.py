"""Small versioned rows, by compare-and-set."""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import Harness

REGISTRY = {Feature.REGISTRY}
KIND = "kind"


def _change(key: str, value: bytes | None, **fields: Any) -> Change:
    return Change(**{"kind": KIND, "key": key, "value": value, **fields})


def _write(h: Harness, key: str, value: bytes | None, **fields: Any) -> Entry | None:
    [answer] = h.store.write([_change(key, value, **fields)], now=h.stamp)
    return answer


def _written(h: Harness, key: str, value: bytes | None, **fields: Any) -> Entry:
    answer = _write(h, key, value, **fields)
    assert answer is not None, f"wanted {key} written, it was refused"
    return answer


def _read(h: Harness, key: str, kind: str = KIND) -> Entry | None:
    [answer] = h.store.read(kind, [key], now=h.stamp)
    return answer


def _keys(h: Harness, **options: Any) -> list[str]:
    return [entry.key for entry in h.store.scan(KIND, now=h.stamp, **options)]


@case("L2", needs=REGISTRY)
def a_key_that_nobody_wrote_is_none(h: Harness) -> None:
    equal(_read(h, "key"), None, "the row")


@case("L2", needs=REGISTRY)
def what_was_written_is_read(h: Harness) -> None:
    entry = _written(h, "key ü/✓", b"\x00\xff")
    equal(entry, Entry(key="key ü/✓", value=b"\x00\xff", version=entry.version), "the answer")
    assert entry.version >= 1, f"wanted a version of at least 1, got {entry.version}"
    equal(_read(h, "key ü/✓"), entry, "the row")
    equal(h.another().read(KIND, ["key ü/✓"], now=h.stamp), [entry], "the row, seen by another connection")


@case("L2", needs=REGISTRY)
def an_empty_value_is_a_value(h: Harness) -> None:
    entry = _written(h, "key", b"")
    equal((entry.value, _read(h, "key")), (b"", entry), "the row")


@case("L2", needs=REGISTRY)
def rows_are_read_in_the_order_asked(h: Harness) -> None:
    a, b = _written(h, "a", b"1"), _written(h, "b", b"2")
    equal(h.store.read(KIND, ["b", "none", "a", "b"], now=h.stamp), [b, None, a, b], "the rows")
    equal(h.store.read(KIND, [], now=h.stamp), [], "no rows")


@case("L2", needs=REGISTRY)
def a_value_may_be_64_kib_and_no_more(h: Harness) -> None:
    value = bytes(bounds.MAX_NOTE_BYTES)
    equal(_written(h, "key", value).value, value, "the row")
    with raising(InvalidInput):
        _change("key", value + b"1")


@case("L12", needs=REGISTRY)
def version_0_wants_the_row_to_be_absent(h: Harness) -> None:
    first = _written(h, "key", b"1", version=0)
    equal(_write(h, "key", b"2", version=0), None, "the second answer")
    equal(_read(h, "key"), first, "the row")


@case("L12", needs=REGISTRY)
def the_current_version_may_write(h: Harness) -> None:
    first = _written(h, "key", b"1")
    second = _written(h, "key", b"2", version=first.version)
    assert second.version > first.version, "wanted a larger version"
    equal(_read(h, "key"), second, "the row")


@case("L12", needs=REGISTRY)
def an_old_version_writes_nothing(h: Harness) -> None:
    first = _written(h, "key", b"1")
    second = _written(h, "key", b"2", version=first.version)
    equal(_write(h, "key", b"3", version=first.version), None, "the answer")
    equal(_write(h, "key", b"3", version=second.version + 1000), None, "the answer to a version of the future")
    equal(_read(h, "key"), second, "the row")


@case("L12", needs=REGISTRY)
def a_version_of_an_absent_row_writes_nothing(h: Harness) -> None:
    equal(_write(h, "key", b"1", version=1), None, "the answer")
    equal(_read(h, "key"), None, "the row")


@case("L12", needs=REGISTRY)
def no_version_takes_whatever_is_there(h: Harness) -> None:
    first = _written(h, "key", b"1", version=None)
    second = _written(h, "key", b"2", version=None)
    assert second.version > first.version, "wanted a larger version"


@case("L12", needs=REGISTRY)
def the_same_value_written_again_is_a_new_version(h: Harness) -> None:
    first, second = _written(h, "key", b"1"), _written(h, "key", b"1")
    assert second.version > first.version, "wanted a larger version"


@case("L12", needs=REGISTRY)
def a_removal_answers_with_version_0(h: Harness) -> None:
    entry = _written(h, "key", b"1")
    removed = _write(h, "key", None, version=entry.version)
    equal(removed, Entry(key="key", value=None, version=0), "the answer")
    equal((_read(h, "key"), _keys(h)), (None, []), "the row")


@case("L12", needs=REGISTRY)
def a_removal_wants_the_current_version(h: Harness) -> None:
    entry = _written(h, "key", b"1")
    equal(_write(h, "key", None, version=entry.version + 1), None, "the answer")
    equal(_read(h, "key"), entry, "the row")


@case("L12", needs=REGISTRY)
def a_version_is_never_used_twice_not_even_after_a_removal(h: Harness) -> None:
    seen = []
    for _ in range(3):
        entry = _written(h, "key", b"1", version=0)
        seen.append(entry.version)
        _written(h, "key", None, version=entry.version)
        equal(_write(h, "key", b"2", version=entry.version), None, "a write with the version of a removed row")
    equal(len(set(seen)), 3, "different versions")


@case("L12", needs=REGISTRY)
def a_version_from_before_a_removal_writes_nothing(h: Harness) -> None:
    old = _written(h, "key", b"1")
    _written(h, "key", None)
    new = _written(h, "key", b"2")
    equal(_write(h, "key", b"3", version=old.version), None, "the answer")
    equal(_read(h, "key"), new, "the row")


@case("L2", "L1", needs=REGISTRY)
def a_row_expires_in_the_microsecond_of_its_end(h: Harness) -> None:
    entry = _written(h, "key", b"1", ttl=10)
    equal(entry.expires_at, h.now + 10, "expires_at")
    h.advance(9)
    equal((_read(h, "key"), _keys(h)), (entry, ["key"]), "a microsecond before the end")
    h.advance(1)
    equal((_read(h, "key"), _keys(h)), (None, []), "at the end")
    h.advance(1)
    equal((_read(h, "key"), _keys(h)), (None, []), "a microsecond after the end")


@case("L2", "L12", needs=REGISTRY)
def an_expired_row_counts_as_absent(h: Harness) -> None:
    old = _written(h, "key", b"1", ttl=10)
    h.advance(9)
    equal(_write(h, "key", b"2", version=0), None, "a microsecond before the end")
    h.advance(1)
    equal(_write(h, "key", b"2", version=old.version), None, "a write with the expired version")
    new = _written(h, "key", b"2", version=0)
    assert new.version > old.version, "wanted a version that was never used"


@case("L2", needs=REGISTRY)
def a_write_renews_or_ends_the_ttl(h: Harness) -> None:
    _written(h, "key", b"1", ttl=10)
    h.advance(5)
    equal(_written(h, "key", b"2", ttl=10).expires_at, h.now + 10, "expires_at")
    equal(_written(h, "key", b"3").expires_at, None, "expires_at of a write without ttl")
    h.advance(SECOND)
    assert _read(h, "key") is not None, "wanted a row without ttl to stay"


@case("L12", needs=REGISTRY)
def a_change_sees_the_ones_before_it(h: Harness) -> None:
    changes = [
        _change("key", b"1", version=0),
        _change("key", b"2", version=0),
        _change("key", None),
        _change("key", b"3", version=0),
    ]
    answers = h.store.write(changes, now=h.stamp)
    values = [answer if answer is None else answer.value for answer in answers]
    equal(values, [b"1", None, None, b"3"], "the values answered")
    equal([answer is None for answer in answers], [False, True, False, False], "which were refused")
    equal(_read(h, "key"), answers[3], "the row")


@case("L12", needs=REGISTRY)
def one_refused_change_spoils_no_other(h: Harness) -> None:
    _written(h, "b", b"0")
    answers = h.store.write(
        [_change("a", b"1", version=0), _change("b", b"1", version=0), _change("c", b"1", version=0)], now=h.stamp
    )
    equal([answer is None for answer in answers], [False, True, False], "which were refused")
    equal(_keys(h), ["a", "b", "c"], "the keys")


@case("L12", needs=REGISTRY)
def an_empty_write_is_answered_with_nothing(h: Harness) -> None:
    equal(h.store.write([], now=h.stamp), [], "the answers")


@case("L2", needs=REGISTRY)
def a_scan_goes_in_the_order_of_the_keys(h: Harness) -> None:
    keys = ["b", "a", "B", "a/2", "a/10", "ü", "~", "a b"]
    for key in keys:
        _written(h, key, b"1")
    equal(_keys(h), sorted(keys), "the keys")


@case("L2", needs=REGISTRY)
def a_scan_keeps_to_its_prefix_literally(h: Harness) -> None:
    for key in ("a%b", "a_b", "axb", "a*b", "a[b]", "A%b", "b", "a\\b"):
        _written(h, key, b"1")
    for prefix in ("a%", "a_", "a*", "a[", "a\\"):
        equal(_keys(h, prefix=prefix), [key for key in _keys(h) if key.startswith(prefix)], f"keys with {prefix!r}")
    equal(_keys(h, prefix="none"), [], "keys with a prefix that none has")


@case("L2", needs=REGISTRY)
def a_scan_is_read_page_by_page(h: Harness) -> None:
    keys = [f"p/{number}" for number in range(5)]
    for key in [*keys, "other", "z"]:
        _written(h, key, b"1")
    first = _keys(h, prefix="p/", limit=2)
    second = _keys(h, prefix="p/", after=first[-1], limit=2)
    third = _keys(h, prefix="p/", after=second[-1], limit=2)
    equal([first, second, third], [keys[:2], keys[2:4], keys[4:]], "the pages")
    equal(_keys(h, prefix="p/", after=keys[-1]), [], "behind the last")


@case("L2", needs=REGISTRY)
def expired_rows_take_no_place_on_a_page(h: Harness) -> None:
    for key in ("a", "b", "c"):
        _written(h, key, b"1", ttl=10)
    for key in ("d", "e"):
        _written(h, key, b"1")
    h.advance(10)
    equal(_keys(h, limit=2), ["d", "e"], "the first page")


@case("L12", needs=REGISTRY)
def kinds_know_nothing_of_one_another(h: Harness) -> None:
    ours = _written(h, "key", b"1")
    theirs = _written(h, "key", b"2", kind="other", version=0)
    equal((_read(h, "key"), _read(h, "key", "other")), (ours, theirs), "the rows")
    equal([entry.value for entry in h.store.scan("other", now=h.stamp)], [b"2"], "a scan of the other kind")


@case("L12", needs=REGISTRY | {Feature.SPACES})
def spaces_share_no_rows(h: Harness) -> None:
    ours, other = _written(h, "key", b"1"), h.elsewhere()
    equal(other.read(KIND, ["key"], now=h.stamp), [None], "the row in another space")
    [theirs] = other.write([_change("key", b"2", version=0)], now=h.stamp)
    assert theirs is not None, "wanted the key to be free in another space"
    equal(_read(h, "key"), ours, "our row")
