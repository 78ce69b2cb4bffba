"""``postgresql://host/database``: durable, for any number of processes and machines, also behind a pooling proxy."""

from holdfast.drivers.postgres.driver import PostgresDriver, open_url

__all__ = ["PostgresDriver", "open_url"]
