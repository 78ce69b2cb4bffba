"""The driver to read first: everything in dictionaries and sorted lists, under one lock, gone with the process.

``space.py`` holds the rows and the few moves that change them, ``driver.py`` the verbs, ``admin.py`` the tools.
"""

from holdfast.drivers.memory.driver import MemoryDriver, open_url

__all__ = ["MemoryDriver", "open_url"]
