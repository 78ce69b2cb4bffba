"""The embedded default, ``sqlite:///path``: one durable file, shared by the threads and processes of one machine."""

from holdfast.drivers.sqlite.driver import SqliteDriver, open_url

__all__ = ["SqliteDriver", "open_url"]
