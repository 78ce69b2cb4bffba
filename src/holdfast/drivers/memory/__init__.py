"""The driver to read first: dictionaries and sorted lists under one lock. Nothing survives the process.

``rows`` has what is stored of a job, ``space`` the indexes over these rows and the moves between states. ``enqueue``,
``reserve``, ``settle``, ``admin``, ``ledger`` and ``registry`` have the verbs, and ``driver`` the class that users see.
Every driver package has these modules.
"""

from holdfast.drivers.memory.driver import MemoryDriver, open_url

__all__ = ["MemoryDriver", "open_url"]
