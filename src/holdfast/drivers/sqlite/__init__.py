"""The embedded default, ``sqlite:///path``: one durable file, shared by the threads and processes of one machine."""

from holdfast.drivers.sqlite.engine import SqliteEngine, open_url

__all__ = ["SqliteEngine", "open_url"]
