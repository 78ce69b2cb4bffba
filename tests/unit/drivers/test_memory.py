"""Threads that open the same store or space in memory at once get the same one: none loses its jobs."""

import threading

import holdfast
from holdfast.drivers.memory import engine
from holdfast.drivers.memory.engine import MemoryStore
from holdfast.model.job import JobRecord

SHORT_SECONDS = 0.2  # in which a thread that does not wait has ended


def open_while_another_thread_opens(monkeypatch, owner, name, open_store):
    """Call ``open_store`` in another thread while this one is creating the object; return what both have got."""
    opened = []
    create = getattr(owner, name)
    other = threading.Thread(target=lambda: opened.append(open_store()))

    def create_slowly(*arguments):
        monkeypatch.setattr(owner, name, create)
        other.start()
        other.join(SHORT_SECONDS)
        return create(*arguments)

    monkeypatch.setattr(owner, name, create_slowly)
    opened.append(open_store())
    other.join()
    return opened


def assert_shared(stores):
    for number, store in enumerate(stores):
        store.enqueue([JobRecord(id=f"job-{number}", type="t", queue="q", payload=b"{}", created_at=1)])
    assert all(len(store.find()) == len(stores) for store in stores)


def test_threads_that_open_a_new_space_at_once_share_it(monkeypatch):
    store = holdfast.connect("memory://")
    spaces = store.engine._store.spaces
    stores = open_while_another_thread_opens(monkeypatch, spaces, "default_factory", lambda: store.space("shop"))
    assert_shared(stores)


def test_threads_that_open_a_named_store_at_once_share_it(monkeypatch):
    stores = open_while_another_thread_opens(
        monkeypatch, engine, MemoryStore.__name__, lambda: holdfast.connect("memory://opened-at-once")
    )
    assert_shared(stores)
