"""The registry: small versioned rows, written by compare-and-set."""

from __future__ import annotations

import itertools
from threading import Event
from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Read, Scan, Write
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import Harness

REGISTRY = {Feature.REGISTRY}
KIND = "kind"


def _change(key: str, value: bytes | None, **fields: Any) -> Change:
    return Change(**{"kind": KIND, "key": key, "value": value, **fields})


def _write(h: Harness, key: str, value: bytes | None, **fields: Any) -> Entry | None:
    [answer] = h.store.do(Write(changes=[_change(key, value, **fields)], now=h.now_or_none))
    return answer


def _must_write(h: Harness, key: str, value: bytes | None, **fields: Any) -> Entry:
    answer = _write(h, key, value, **fields)
    assert answer is not None, f"wanted {key} written, it was refused"
    return answer


def _read(h: Harness, key: str, kind: str = KIND) -> Entry | None:
    [answer] = h.store.do(Read(kind=kind, keys=[key], now=h.now_or_none))
    return answer


def _keys(h: Harness, **options: Any) -> list[str]:
    return [entry.key for entry in h.store.do(Scan(kind=KIND, now=h.now_or_none, **options))]


@case("L2", needs=REGISTRY)
def reading_an_unknown_key_returns_none(h: Harness) -> None:
    assert_equal(_read(h, "key"), None, "the row")


@case("L2", needs=REGISTRY)
def a_written_value_is_read_back(h: Harness) -> None:
    entry = _must_write(h, "key ü/✓", b"\x00\xff")
    assert_equal(entry, Entry(key="key ü/✓", value=b"\x00\xff", version=entry.version), "the answer")
    assert entry.version >= 1, f"wanted a version of at least 1, got {entry.version}"
    assert_equal(_read(h, "key ü/✓"), entry, "the row")
    assert_equal(
        h.connect_again().do(Read(kind=KIND, keys=["key ü/✓"], now=h.now_or_none)),
        [entry],
        "the row, seen by another connection",
    )


@case("L2", needs=REGISTRY)
def an_empty_value_is_stored(h: Harness) -> None:
    entry = _must_write(h, "key", b"")
    assert_equal((entry.value, _read(h, "key")), (b"", entry), "the row")


@case("L2", needs=REGISTRY)
def rows_are_returned_in_the_order_of_the_keys_read(h: Harness) -> None:
    a, b = _must_write(h, "a", b"1"), _must_write(h, "b", b"2")
    assert_equal(
        h.store.do(Read(kind=KIND, keys=["b", "none", "a", "b"], now=h.now_or_none)), [b, None, a, b], "the rows"
    )
    assert_equal(h.store.do(Read(kind=KIND, keys=[], now=h.now_or_none)), [], "no rows")


@case("L2", needs=REGISTRY)
def a_value_may_have_at_most_64_kib(h: Harness) -> None:
    value = bytes(bounds.MAX_NOTE_BYTES)
    assert_equal(_must_write(h, "key", value).value, value, "the row")
    with assert_raises(InvalidInput):
        _change("key", value + b"1")


@case("L12", needs=REGISTRY)
def a_write_with_version_0_needs_an_absent_row(h: Harness) -> None:
    first = _must_write(h, "key", b"1", version=0)
    assert_equal(_write(h, "key", b"2", version=0), None, "the second answer")
    assert_equal(_read(h, "key"), first, "the row")


@case("L12", needs=REGISTRY)
def a_write_with_the_current_version_is_accepted(h: Harness) -> None:
    first = _must_write(h, "key", b"1")
    second = _must_write(h, "key", b"2", version=first.version)
    assert second.version > first.version, "wanted a larger version"
    assert_equal(_read(h, "key"), second, "the row")


@case("L12", needs=REGISTRY)
def a_write_with_an_old_version_is_refused(h: Harness) -> None:
    first = _must_write(h, "key", b"1")
    second = _must_write(h, "key", b"2", version=first.version)
    assert_equal(_write(h, "key", b"3", version=first.version), None, "the answer")
    assert_equal(_write(h, "key", b"3", version=second.version + 1000), None, "the answer to a version of the future")
    assert_equal(_read(h, "key"), second, "the row")


@case("L12", needs=REGISTRY)
def a_write_with_a_version_is_refused_if_the_row_is_absent(h: Harness) -> None:
    assert_equal(_write(h, "key", b"1", version=1), None, "the answer")
    assert_equal(_read(h, "key"), None, "the row")


@case("L12", needs=REGISTRY)
def a_write_without_a_version_is_always_accepted(h: Harness) -> None:
    first = _must_write(h, "key", b"1", version=None)
    second = _must_write(h, "key", b"2", version=None)
    assert second.version > first.version, "wanted a larger version"


@case("L12", needs=REGISTRY)
def writing_the_same_value_again_makes_a_new_version(h: Harness) -> None:
    first, second = _must_write(h, "key", b"1"), _must_write(h, "key", b"1")
    assert second.version > first.version, "wanted a larger version"


@case("L12", needs=REGISTRY)
def a_removal_returns_version_0(h: Harness) -> None:
    entry = _must_write(h, "key", b"1")
    removed = _write(h, "key", None, version=entry.version)
    assert_equal(removed, Entry(key="key", value=None, version=0), "the answer")
    assert_equal((_read(h, "key"), _keys(h)), (None, []), "the row")


@case("L12", needs=REGISTRY)
def a_removal_needs_the_current_version(h: Harness) -> None:
    entry = _must_write(h, "key", b"1")
    assert_equal(_write(h, "key", None, version=entry.version + 1), None, "the answer")
    assert_equal(_read(h, "key"), entry, "the row")


@case("L12", needs=REGISTRY)
def a_version_is_never_used_twice_even_after_a_removal(h: Harness) -> None:
    versions = []
    for _ in range(3):
        entry = _must_write(h, "key", b"1", version=0)
        versions.append(entry.version)
        _must_write(h, "key", None, version=entry.version)
        assert_equal(_write(h, "key", b"2", version=entry.version), None, "a write with the version of a removed row")
    assert_equal(len(set(versions)), 3, "different versions")


@case("L12", needs=REGISTRY)
def a_write_with_a_version_from_before_a_removal_is_refused(h: Harness) -> None:
    old = _must_write(h, "key", b"1")
    _must_write(h, "key", None)
    new = _must_write(h, "key", b"2")
    assert_equal(_write(h, "key", b"3", version=old.version), None, "the answer")
    assert_equal(_read(h, "key"), new, "the row")


@case("L2", "L1", needs=REGISTRY)
def a_row_expires_exactly_at_expires_at(h: Harness) -> None:
    entry = _must_write(h, "key", b"1", ttl=10)
    assert_equal(entry.expires_at, h.now + 10, "expires_at")
    h.advance(9)
    assert_equal((_read(h, "key"), _keys(h)), (entry, ["key"]), "a microsecond before the end")
    h.advance(1)
    assert_equal((_read(h, "key"), _keys(h)), (None, []), "at the end")
    h.advance(1)
    assert_equal((_read(h, "key"), _keys(h)), (None, []), "a microsecond after the end")


@case("L2", "L12", needs=REGISTRY)
def an_expired_row_counts_as_absent(h: Harness) -> None:
    old = _must_write(h, "key", b"1", ttl=10)
    h.advance(9)
    assert_equal(_write(h, "key", b"2", version=0), None, "a microsecond before the end")
    h.advance(1)
    assert_equal(_write(h, "key", b"2", version=old.version), None, "a write with the expired version")
    new = _must_write(h, "key", b"2", version=0)
    assert new.version > old.version, "wanted a version that was never used"


@case("L2", "L12", needs=REGISTRY)
def an_expired_row_can_be_removed_as_an_absent_one(h: Harness) -> None:
    _must_write(h, "key", b"1", ttl=10)
    h.advance(9)
    assert_equal(_write(h, "key", None, version=0), None, "a microsecond before the end")
    h.advance(1)
    assert_equal(_must_write(h, "key", None, version=0).version, 0, "the version")


@case("L2", needs=REGISTRY)
def a_write_renews_or_clears_the_ttl(h: Harness) -> None:
    _must_write(h, "key", b"1", ttl=10)
    h.advance(5)
    assert_equal(_must_write(h, "key", b"2", ttl=10).expires_at, h.now + 10, "expires_at")
    assert_equal(_must_write(h, "key", b"3").expires_at, None, "expires_at of a write without ttl")
    h.advance(SECOND)
    assert _read(h, "key") is not None, "wanted a row without ttl to stay"


@case("L12", needs=REGISTRY)
def a_change_sees_the_earlier_changes_of_its_batch(h: Harness) -> None:
    changes = [
        _change("key", b"1", version=0),
        _change("key", b"2", version=0),
        _change("key", None),
        _change("key", b"3", version=0),
    ]
    answers = h.store.do(Write(changes=changes, now=h.now_or_none))
    values = [answer if answer is None else answer.value for answer in answers]
    assert_equal(values, [b"1", None, None, b"3"], "the values answered")
    assert_equal([answer is None for answer in answers], [False, True, False, False], "which were refused")
    assert_equal(_read(h, "key"), answers[3], "the row")


@case("L12", needs=REGISTRY)
def one_refused_change_does_not_affect_the_others(h: Harness) -> None:
    _must_write(h, "b", b"0")
    answers = h.store.do(
        Write(
            changes=[_change("a", b"1", version=0), _change("b", b"1", version=0), _change("c", b"1", version=0)],
            now=h.now_or_none,
        )
    )
    assert_equal([answer is None for answer in answers], [False, True, False], "which were refused")
    assert_equal(_keys(h), ["a", "b", "c"], "the keys")


@case("L12", needs=REGISTRY)
def an_empty_write_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.store.do(Write(changes=[], now=h.now_or_none)), [], "the answers")


@case("L2", needs=REGISTRY)
def scan_returns_rows_in_the_order_of_their_keys(h: Harness) -> None:
    keys = ["b", "a", "B", "a/2", "a/10", "ü", "~", "a b"]
    for key in keys:
        _must_write(h, key, b"1")
    assert_equal(_keys(h), sorted(keys), "the keys")


@case("L2", needs=REGISTRY)
def scan_compares_its_prefix_literally(h: Harness) -> None:
    for key in ("a%b", "a_b", "axb", "a*b", "a[b]", "A%b", "b", "a\\b"):
        _must_write(h, key, b"1")
    for prefix in ("a%", "a_", "a*", "a[", "a\\"):
        assert_equal(
            _keys(h, prefix=prefix), [key for key in _keys(h) if key.startswith(prefix)], f"keys with {prefix!r}"
        )
    assert_equal(_keys(h, prefix="none"), [], "keys with a prefix that none has")


@case("L2", needs=REGISTRY)
def scan_returns_rows_page_by_page(h: Harness) -> None:
    keys = [f"p/{number}" for number in range(5)]
    for key in [*keys, "other", "z"]:
        _must_write(h, key, b"1")
    first = _keys(h, prefix="p/", limit=2)
    second = _keys(h, prefix="p/", after=first[-1], limit=2)
    third = _keys(h, prefix="p/", after=second[-1], limit=2)
    assert_equal([first, second, third], [keys[:2], keys[2:4], keys[4:]], "the pages")
    assert_equal(_keys(h, prefix="p/", after=keys[-1]), [], "keys after the last one")


@case("L2", needs=REGISTRY)
def expired_rows_do_not_count_for_the_page_size(h: Harness) -> None:
    for key in ("a", "b", "c"):
        _must_write(h, key, b"1", ttl=10)
    for key in ("d", "e"):
        _must_write(h, key, b"1")
    h.advance(10)
    assert_equal(_keys(h, limit=2), ["d", "e"], "the first page")


@case("L12", needs=REGISTRY)
def kinds_are_independent(h: Harness) -> None:
    ours = _must_write(h, "key", b"1")
    theirs = _must_write(h, "key", b"2", kind="other", version=0)
    assert_equal((_read(h, "key"), _read(h, "key", "other")), (ours, theirs), "the rows")
    assert_equal(
        [entry.value for entry in h.store.do(Scan(kind="other", now=h.now_or_none))], [b"2"], "a scan of the other kind"
    )


@case("L12", needs=REGISTRY | {Feature.SPACES})
def spaces_do_not_share_registry_rows(h: Harness) -> None:
    ours, other = _must_write(h, "key", b"1"), h.open_other_space()
    assert_equal(other.do(Read(kind=KIND, keys=["key"], now=h.now_or_none)), [None], "the row in another space")
    [theirs] = other.do(Write(changes=[_change("key", b"2", version=0)], now=h.now_or_none))
    assert theirs is not None, "wanted the key to be free in another space"
    assert_equal(_read(h, "key"), ours, "our row")


@case("L2", needs=REGISTRY)
def many_changes_of_a_batch_are_made_or_refused_one_by_one(h: Harness) -> None:
    kept = [_must_write(h, f"kept-{number:02}", b"old") for number in range(30)]
    _must_write(h, "expired", b"old", ttl=10)
    h.advance(10)
    changes = [
        change
        for number, row in enumerate(kept)
        for change in (
            _change(row.key, b"new" if number % 3 else None, version=row.version + number % 2, ttl=99),
            _change(f"new-{number:02}", b"new", version=0),
            _change(f"absent-{number:02}", None if number % 2 else b"new", version=number),
        )
    ]
    changes += [_change("expired", b"new", version=0), _change("gone", None)]
    answers = h.store.do(Write(changes=changes, now=h.now_or_none))
    is_accepted = [answer is not None for answer in answers]
    wanted = [accepted for number in range(30) for accepted in (number % 2 == 0, True, number == 0)]
    assert_equal(is_accepted, [*wanted, True, True], "which changes were accepted")
    for change, answer in zip(changes, answers, strict=True):
        if answer is not None:
            assert_equal(answer.value, change.value, f"the value of {change.key}")
            assert_equal(answer.expires_at, h.now + 99 if change.ttl and change.value else None, "expires_at")
            assert_equal(_read(h, change.key), answer if answer.value else None, f"the row {change.key}")
            assert_equal(answer.version == 0, change.value is None, f"version 0 of {change.key}")
    versions = [answer.version for answer in answers if answer is not None and answer.version]
    assert_equal(len(set(versions)), len(versions), "the number of versions")
    assert min(versions) > max(row.version for row in kept), "wanted new versions"
    assert_equal(_read(h, "kept-01"), kept[1], "a row whose change was refused")


def _write_together(h: Harness, changes: list[Change]) -> list[Entry | None]:
    return h.store.do(Write(changes=changes, together=True, now=h.now_or_none))


def _one_change_of_each_sort(h: Harness, pad: int = 0) -> list[Change]:
    """Return changes that are all accepted: of new, known and any entries, and removals. ``pad``: more of the first."""
    known, removed, expired = (_must_write(h, key, b"old") for key in ("known", "removed", "expired"))
    _must_write(h, "expired", b"old", version=expired.version, ttl=10)
    h.advance(10)
    return [
        *(_change(f"new-{number:02}", b"new", version=0) for number in range(pad + 1)),
        _change("known", b"new", version=known.version, ttl=99),
        _change("any", b"new"),
        _change("removed", None, version=removed.version),
        _change("expired", b"new", version=0),
        _change("never", None),
    ]


@case("L12", needs=REGISTRY)
def changes_that_are_made_together_answer_as_others(h: Harness) -> None:
    for pad in (0, 30):
        changes = _one_change_of_each_sort(h, pad)
        answers = _write_together(h, changes)
        for change, answer in zip(changes, answers, strict=True):
            assert answer is not None, f"wanted {change.key} written, it was refused"
            assert_equal((answer.key, answer.value), (change.key, change.value), "the entry answered")
            assert_equal(answer.expires_at, h.now + 99 if change.ttl else None, f"expires_at of {change.key}")
            assert_equal(answer.version == 0, change.value is None, f"version 0 of {change.key}")
            assert_equal(_read(h, change.key), None if change.value is None else answer, f"the row {change.key}")
        versions = [answer.version for answer in answers if answer is not None and answer.version]
        assert_equal(len(set(versions)), len(versions), "the number of versions")
        for key in _keys(h):
            _must_write(h, key, None)


@case("L12", needs=REGISTRY)
def of_changes_that_are_made_together_none_is_made_if_one_version_differs(h: Harness) -> None:
    theirs = _must_write(h, "theirs", b"old")
    refused = [
        _change("theirs", b"new", version=0),
        _change("theirs", b"new", version=theirs.version + 1),
        _change("theirs", None, version=0),
        _change("theirs", None, version=theirs.version + 1),
        _change("absent", b"new", version=theirs.version),
        _change("absent", None, version=theirs.version),
    ]
    for pad in (0, 30):
        accepted = _one_change_of_each_sort(h, pad)
        before = h.store.do(Scan(kind=KIND, now=h.now_or_none))
        for change in refused:
            for changes in ([change, *accepted], [*accepted, change], [*accepted[:2], change, *accepted[2:]]):
                assert_equal(_write_together(h, changes), [None] * len(changes), "the answers")
                assert_equal(h.store.do(Scan(kind=KIND, now=h.now_or_none)), before, "the rows")
        for key in ("known", "removed"):
            _must_write(h, key, None)


@case("L12", needs=REGISTRY)
def one_refused_change_alone_is_not_made_together_either(h: Harness) -> None:
    entry = _must_write(h, "key", b"1")
    assert_equal(_write_together(h, [_change("key", b"2", version=0)]), [None], "the answer")
    assert_equal(_read(h, "key"), entry, "the row")
    assert_equal(_write_together(h, []), [], "the answers to no changes")


@case("L12", needs=REGISTRY)
def changes_that_are_made_together_name_every_entry_once(h: Harness) -> None:
    with assert_raises(InvalidInput):
        _write_together(h, [_change("key", b"1"), _change("key", b"2")])
    assert_equal(_keys(h), [], "the keys")
    answers = _write_together(h, [_change("key", b"1", version=0), _change("key", b"2", version=0, kind="other")])
    assert None not in answers, "wanted two entries with one key, of different kinds"


@case("L12", needs=REGISTRY)
def a_read_sees_all_changes_that_were_made_together_or_none(h: Harness) -> None:
    keys = [f"key-{number:02}" for number in range(30)]
    writer, has_ended = h.connect_again(), Event()

    def write() -> None:
        for number in itertools.count():
            value = b"%d" % number
            writer.do(Write(changes=[_change(key, value) for key in keys], together=True, now=h.now_or_none))
            if has_ended.is_set():
                return

    def read() -> None:
        try:
            for _ in range(10):
                for entries in (
                    h.store.do(Read(kind=KIND, keys=keys, now=h.now_or_none)),
                    h.store.do(Scan(kind=KIND, now=h.now_or_none)),
                ):
                    values = {None if entry is None else entry.value for entry in entries}
                    assert len(values) <= 1, f"wanted the values of one write, got {values}"
        finally:
            has_ended.set()

    h.run_concurrently(write, read)
