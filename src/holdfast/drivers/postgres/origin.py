"""The origin of a store: the server and database whose transaction numbers its ledger has.

``pg_dump`` copies the ledger but not the transaction numbers of the server, and a new server counts from the start. The
first process that connects to a restored store finds another server or database than the origin names, and begins a
new epoch, in which a multiple of 2^48 is added to every transaction number (see ``schema/002_origin.sql``).
"""

from __future__ import annotations

from holdfast.drivers.postgres.connections import Connection

EPOCH_SHIFT = 2**48  # above every transaction number that a server reaches; the functions have the same number

_IS_ORIGIN = """
SELECT count(*) = 1 FROM {schema}origin AS o, pg_control_system() AS s, pg_database AS d
 WHERE d.datname = current_database() AND o.system_identifier = s.system_identifier AND o.database_oid = d.oid::bigint
"""
_BEGIN_EPOCH = """
UPDATE origin SET epoch = epoch + 1, system_identifier = s.system_identifier, database_oid = d.oid::bigint
  FROM pg_control_system() AS s, pg_database AS d WHERE d.datname = current_database()
RETURNING epoch
"""


def is_origin(connection: Connection, schema: str) -> bool:
    """Whether the ledger of the store has the transaction numbers of this server."""
    [(found,)] = connection.execute(_IS_ORIGIN.format(schema=f'"{schema}".').encode()).fetchall()
    return bool(found)


def begin_epoch(connection: Connection) -> None:
    """Make this server and database the origin. The caller has set the search path and holds the installation lock.

    ALTER TABLE waits for transactions that have written to the ledger, so that no row of the old epoch commits later.
    """
    connection.execute("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
    [(epoch,)] = connection.execute(_BEGIN_EPOCH).fetchall()
    connection.execute(
        "ALTER TABLE ledger ALTER COLUMN xid SET DEFAULT "
        f"(((pg_current_xact_id()::text)::bigint + {epoch * EPOCH_SHIFT})::text)::xid8".encode()
    )
