"""The driver to read first: dictionaries and sorted lists under one lock. Nothing survives the process.

``rows`` has what is stored of a job, ``space`` the indexes over these rows and the moves between states. ``enqueue``,
``reserve``, ``settle``, ``admin``, ``ledger`` and ``registry`` have what the requests do,
and ``engine`` has a method for each request. Every driver package has these modules.
"""

from holdfast.drivers.memory.engine import MemoryEngine, MemoryStore, open_url

__all__ = ["MemoryEngine", "MemoryStore", "open_url"]
