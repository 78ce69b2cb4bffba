"""``postgresql://host/database``: durable, for any number of processes and machines, also behind a pooling proxy."""

from holdfast.drivers.postgres.engine import PostgresEngine, open_url

__all__ = ["PostgresEngine", "open_url"]
