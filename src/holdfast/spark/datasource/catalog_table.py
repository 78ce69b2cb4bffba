"""Tables of Spark's catalog: ``CREATE TABLE endings USING holdfast OPTIONS (store 'prod', table 'ledger')``.

Spark passes the options of a table to a Python source when the table is created, and not when it is read. It then
passes only the schema of the table. So the options are stored in the schema, as metadata of the first column. Runs on
the Spark driver.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from holdfast.errors import InvalidInput
from holdfast.settings import mask_secrets

PROVIDER = "provider"  # a property of a table; no option of the source has this name
OPTION_PREFIX = "option."  # of the properties that are options
METADATA = "holdfast"


def options_of_new_table(properties: Mapping[str, str]) -> dict[str, str] | None:
    """Return the options of a table that is being created; None if Spark passes the options of a read.

    Raises ``InvalidInput`` for a URL with a password: it would stay in the catalog, and Spark may show it in plans.
    """
    if PROVIDER not in properties:
        return None
    options = {
        name.removeprefix(OPTION_PREFIX): text for name, text in properties.items() if name.startswith(OPTION_PREFIX)
    }
    url = options.get("url", "")
    if mask_secrets(url) != url:
        raise InvalidInput(
            "option url",
            wanted="the option store with the name of a store in the settings: a table keeps its options, and without "
            "spark.redaction.string.regex Spark shows them in its event log, this password too",
            got=mask_secrets(url),
        )
    return options


def store_options(schema: pa.Schema, options: Mapping[str, str]) -> StructType:
    """Return the schema of a new table, with its options."""
    columns = from_arrow_schema(schema)
    columns.fields[0].metadata = {METADATA: dict(options)}
    return columns


def stored_options(schema: StructType) -> dict[str, str]:
    """Return the options of the table that is read; none if the frame is no table of the catalog."""
    return dict(schema.fields[0].metadata.get(METADATA, {})) if schema.fields else {}
