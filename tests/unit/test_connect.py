"""A URL becomes a driver, or an error that says what to write or install."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.clock import ManualClock
from holdfast.connect import connect
from holdfast.drivers.memory import MemoryEngine
from holdfast.drivers.store import Store
from holdfast.errors import CallerClockRefused, ConnectError, InvalidInput, StoreClosed
from holdfast.model.job import JobRecord

module = sys.modules["holdfast.connect"]
JOB = JobRecord(id="j1", type="t", queue="q", payload=b"1", created_at=0)


def test_memory_is_a_new_store_every_time():
    one, other = connect("memory://"), connect("memory://")
    one.enqueue([JOB])
    assert isinstance(one, Store)
    assert one.get("j1") is not None
    assert other.get("j1") is None


def test_a_named_memory_is_shared_while_it_is_open():
    one, same = connect("memory://shared-here"), connect("memory://shared-here")
    one.enqueue([JOB])
    assert same.get("j1") == one.get("j1") != None  # noqa: E711 - a chain reads better
    one.close()
    with pytest.raises(StoreClosed):
        same.get("j1")
    assert connect("memory://shared-here").get("j1") is None


def test_a_space_sees_its_own_jobs_only():
    store = connect("memory://", space="acme")
    store.enqueue([JOB])
    assert store.space("acme").get("j1") is not None
    assert store.space("main").get("j1") is None
    with pytest.raises(InvalidInput, match="space: wanted 1 to 128 of"):
        connect("memory://", space="a b")


def test_an_empty_space_is_not_the_space_main(tmp_path, monkeypatch):
    (tmp_path / "holdfast.toml").write_text('[stores.jobs]\nurl = "memory://"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for open_store in (
        lambda: connect("memory://", space=""),
        lambda: connect("store:jobs", space=""),
        lambda: Holdfast("memory://", space="").driver,
    ):
        with pytest.raises(InvalidInput, match="space: wanted 1 to 128 of"):
            open_store()


def test_now_is_refused_unless_the_caller_brings_the_clock():
    with pytest.raises(CallerClockRefused, match="caller_clock=True"):
        connect("memory://").enqueue([JOB], now=5)
    assert connect("memory://", caller_clock=True).enqueue([JOB], now=5)[0].id == "j1"


def test_a_clock_can_be_brought():
    clock = ManualClock(start=77)
    store = connect("memory://", clock=clock)
    store.enqueue([JOB])
    [reservation] = store.reserve(["q"], limit=1, lease_for=3)
    assert reservation.lease.expires_at == 80


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://host/db", "got mysql://"),
        ("jobs.db", r"got no scheme \(for a file: sqlite:///jobs\.db\)"),
        ("", "got no scheme$"),
        ("postgresql+psycopg://host/db", r"got postgresql\+psycopg:// \(without the driver: postgresql://\)"),
        ("mysql+asyncmy://host/db", r"got mysql\+asyncmy://$"),
    ],
)
def test_a_url_that_nobody_knows_is_answered_with_ones_that_work(url: str, message: str):
    with pytest.raises(ConnectError, match=message) as refused:
        connect(url)
    assert "wanted a store URL such as memory://, sqlite:///jobs.db" in str(refused.value)


@pytest.mark.parametrize("url", [Path("jobs.db"), 5, None], ids=str)
def test_a_url_that_is_not_text_is_refused(url: object):
    message = f"wanted a store URL as text, such as sqlite:///jobs.db, got {type(url).__name__}"
    with pytest.raises(ConnectError, match=message):
        connect(url)  # type: ignore[arg-type]
    if url is not None:
        with pytest.raises(ConnectError, match=message):
            Holdfast(url)  # type: ignore[arg-type]


def test_an_unknown_option_is_answered_with_the_known_ones():
    with pytest.raises(ConnectError, match="unknown option 'durable' in a memory URL; it takes: none"):
        connect("memory://?durable=1")


def test_a_missing_extra_is_named(monkeypatch):
    needs = module._BuiltIn("a_package_that_is_not_here.driver", "blue://host", extra="blue")
    monkeypatch.setitem(module._BUILT_IN, "blue", needs)
    wanted = r"blue://host needs the package a_package_that_is_not_here: pip install 'holdfast\[blue\]'"
    with pytest.raises(ConnectError, match=wanted) as refused:
        connect("blue://host")
    assert isinstance(refused.value.__cause__, ImportError)


@pytest.mark.parametrize("extra", [None, "blue"])
def test_a_built_in_driver_that_cannot_be_imported_is_a_bug_not_a_missing_extra(monkeypatch, extra):
    broken = module._BuiltIn("holdfast.drivers.not_here", "blue://host", extra=extra)
    monkeypatch.setitem(module._BUILT_IN, "blue", broken)
    with pytest.raises(ImportError):
        connect("blue://host")


# Drivers of other packages ----------------------------------------------------------------------------------

DRIVER = """
from holdfast.drivers.memory.engine import MemoryEngine, MemoryStore
from holdfast.drivers.store import Store

def open_url(url, *, space, caller_clock, clock):
    return Store(MemoryEngine(MemoryStore(clock), caller_clock=caller_clock, space=space))
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch):
    """A distribution as pip would leave it: a module, and its entry points beside it."""
    (tmp_path / "other_driver.py").write_text(DRIVER)
    info = tmp_path / "other_driver-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-driver\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[{module.ENTRY_POINT_GROUP}]\n"
        "green = other_driver:open_url\nbroken = other_driver_that_is_not_here:open_url\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("other_driver", None)


@pytest.mark.usefixtures("installed")
def test_a_driver_of_another_package_is_found_by_its_entry_point():
    assert isinstance(connect("green://anywhere", space="acme").engine, MemoryEngine)


@pytest.mark.usefixtures("installed")
def test_a_driver_of_another_package_is_named_among_the_known_ones():
    with pytest.raises(ConnectError, match=r"sqlite:///jobs\.db.*, broken://, green://; got red://"):
        connect("red://")


@pytest.mark.usefixtures("installed")
def test_a_driver_of_another_package_that_cannot_be_imported_says_so():
    wanted = r"the driver for broken:// \(other_driver_that_is_not_here:open_url\) cannot be imported"
    with pytest.raises(ConnectError, match=wanted):
        connect("broken://")


def test_a_driver_whose_package_is_missing_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.startswith("holdfast.drivers.postgres"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConnectError, match=r"needs the package psycopg: pip install 'holdfast\[postgres\]'$"):
        connect("postgresql://me@127.0.0.1/db")


@pytest.mark.parametrize(
    ("url", "got"),
    [
        ("sqlite:///", "no path"),
        ("sqlite:///jobs%00.db", r"'jobs\\x00\.db'"),
        ("sqlite:///:memory:", "':memory:'"),
        ("sqlite://host/jobs.db", "a host"),
    ],
)
def test_a_sqlite_url_without_a_path_that_a_file_can_have_is_refused(url, got):
    with pytest.raises(ConnectError, match=rf"wanted sqlite:///relative\.db .*, got {got}"):
        connect(url)
