"""Public names of a package that are imported at their first use, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package with these names, which are by the modules that have them."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def import_name(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name
