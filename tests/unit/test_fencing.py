"""Fenced writes: a later attempt wins, whatever the order of the calls, and a stale one is refused."""

from __future__ import annotations

import random
import threading

import pytest

from holdfast.errors import StoreBusy
from holdfast.fencing import StaleFence, Version, put_fenced, require_written


class CompareAndSetObject:
    """One object with a version, as an object store keeps it; ``history`` has the fences in the order of the puts."""

    def __init__(self) -> None:
        self.history: list[int] = []
        self._lock = threading.Lock()

    def read(self) -> Version | None:
        with self._lock:
            return Version(self.history[-1], str(len(self.history))) if self.history else None

    def put(self, etag: str | None, fence: int) -> bool:
        with self._lock:
            if etag != (str(len(self.history)) if self.history else None):
                return False
            self.history.append(fence)
            return True

    def write(self, fence: int) -> None:
        put_fenced(self.read, lambda etag: self.put(etag, fence), "object", fence=fence)


def test_a_changed_row_is_accepted():
    require_written(1, "account 7", fence=8)


def test_a_row_that_did_not_change_is_stale():
    with pytest.raises(StaleFence, match="account 7: wanted to write with the largest fence, 8") as caught:
        require_written(0, "account 7", fence=8)
    assert (caught.value.target, caught.value.fence, caught.value.stored) == ("account 7", 8, None)


def test_an_object_keeps_the_largest_fence():
    stored = CompareAndSetObject()
    stored.write(3)
    stored.write(5)
    with pytest.raises(StaleFence) as caught:
        stored.write(4)
    assert caught.value.stored == 5
    stored.write(5)  # the same attempt again: the answer of its first put may have been lost
    assert stored.history == [3, 5, 5]


def test_a_write_between_read_and_put_is_seen():
    stored = CompareAndSetObject()

    def put(etag: str | None) -> bool:
        if not stored.history:
            stored.write(9)  # another attempt comes in between
        return stored.put(etag, 8)

    with pytest.raises(StaleFence):
        put_fenced(stored.read, put, "object", fence=8)
    assert stored.history == [9]


def test_fences_never_fall_when_many_threads_put_at_once():
    stored = CompareAndSetObject()
    fences = list(range(200))
    random.Random(1).shuffle(fences)

    def write(own: list[int]) -> None:
        for fence in own:
            try:
                stored.write(fence)
            except StaleFence:
                continue

    threads = [threading.Thread(target=write, args=(fences[number::8],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert stored.history == sorted(stored.history)
    assert stored.history[-1] == max(fences)


def test_an_object_that_always_changes_is_given_up():
    with pytest.raises(StoreBusy):
        put_fenced(lambda: Version(1, "1"), lambda _: False, "object", fence=8)
