"""``https://host``: a store behind the HTTP service. The process needs a token, and no access to the store itself."""

from holdfast.drivers.http.engine import HttpEngine, open_url

__all__ = ["HttpEngine", "open_url"]
