"""``https://host``: a store behind the HTTP service. The process needs a token, and no access to the store itself."""

from holdfast.drivers.http.driver import HttpDriver
from holdfast.drivers.http.opening import open_url

__all__ = ["HttpDriver", "open_url"]
