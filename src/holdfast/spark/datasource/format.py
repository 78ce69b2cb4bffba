"""The Spark data source ``holdfast``: one format for the sink and for the sources.

Spark creates a ``DataSource`` in a Python process of the Spark driver and requests writers and readers there, so
options are checked before any Spark task runs. Writers and readers are pickled by reference: executors need Holdfast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType
from uuid_utils import uuid7

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, SparkUnavailable, Unsupported
from holdfast.spark.datasource import catalog_table, jobs_table, ledger_table
from holdfast.spark.datasource.bad_rows import resolve_folder
from holdfast.spark.datasource.column_types import check_columns
from holdfast.spark.datasource.options import FAIL, SinkOptions, StoreLocation, parse_sink, parse_source
from holdfast.spark.datasource.short_errors import short_errors
from holdfast.spark.datasource.source import JobsReader, LedgerReader
from holdfast.spark.store_access import check, open_store

if TYPE_CHECKING:
    from holdfast.spark.datasource.sink import JobStreamWriter, JobWriter

FORMAT = "holdfast"
SCHEMAS = {"jobs": jobs_table.SCHEMA, "ledger": ledger_table.SCHEMA}
REQUIRED_FEATURES = {  # option: feature that the store must have for it
    "offset": Feature.OFFSET,
    "domain": Feature.DOMAIN,
    "priority": Feature.PRIORITY,
    "run_at": Feature.SCHEDULE,
    "delay": Feature.SCHEDULE,
}


class HoldfastSource(DataSource):
    """``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream`` with ``.format("holdfast")``."""

    one_machine = True  # the process that runs this class cannot find out; the session that registers it can

    @classmethod
    def name(cls) -> str:
        """Return the name for ``.format(...)``."""
        return FORMAT

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> JobWriter:  # noqa: FBT001 - Spark's signature
        """Return the writer for ``df.write``."""
        from holdfast.spark.datasource.sink import JobWriter  # noqa: PLC0415 - needs a newer pyspark than this module

        options = self._sink_options(schema, overwrite=overwrite)
        return JobWriter(options, schema.fieldNames(), options.run or str(uuid7()))

    @short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> JobStreamWriter:  # noqa: FBT001, N802 - the same
        """Return the writer for ``df.writeStream``."""
        try:
            from holdfast.spark.datasource.sink import JobStreamWriter  # noqa: PLC0415 - the same
        except ImportError as error:
            raise SparkUnavailable("wanted pyspark 4.1 or newer to write streams as Arrow, got an older one") from error
        return JobStreamWriter(self._sink_options(schema, overwrite=overwrite), schema.fieldNames())

    @short_errors
    def schema(self) -> StructType | str:
        """Return the columns of the table that is read: ``jobs``, or ``ledger``."""
        new_table = catalog_table.options_of_new_table(self.options)
        if new_table is not None:
            table = parse_source(new_table, stream=False).table
            return catalog_table.store_options(SCHEMAS[table], new_table)
        table = str(self.options.get("table") or self.options.get("path") or "")
        return ledger_table.DDL if table == "ledger" else jobs_table.DDL  # reader() refuses any other table

    @short_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for ``spark.read``."""
        options = parse_source({**catalog_table.stored_options(schema), **self.options}, stream=False)
        _check_schema(schema, SCHEMAS[options.table].names)
        self._open(options.store)
        return JobsReader(options) if options.table == "jobs" else LedgerReader(options)

    @short_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader for ``spark.readStream``."""
        try:
            from holdfast.spark.datasource.stream import LedgerStreamReader  # noqa: PLC0415 - needs a newer pyspark
        except ImportError as error:
            raise SparkUnavailable(
                "wanted pyspark 4.2 or newer to read streams from an offset, got an older one"
            ) from error
        options = parse_source({**catalog_table.stored_options(schema), **self.options}, stream=True)
        _check_schema(schema, ledger_table.SCHEMA.names)
        self._open(options.store)
        return LedgerStreamReader(options)

    def _open(self, location: StoreLocation) -> Store:
        """Open the store. Raises ``Unsupported`` if the Python processes of this Spark cannot share it."""
        store = open_store(location.url, location.space)
        check(store, one_machine=self.one_machine)
        return store

    def _sink_options(self, schema: StructType, *, overwrite: bool) -> SinkOptions:
        if overwrite:
            raise InvalidInput("mode", wanted="append: jobs are added, never replaced", got="overwrite")
        if not self.options:  # Spark passes no options of a table: neither the type of the jobs nor their store
            wanted = 'df.write.format("holdfast").options(...).save()'
            raise InvalidInput("write", wanted=wanted, got="no options, as in CREATE TABLE ... AS SELECT and INSERT")
        options = parse_sink(self.options, schema.fieldNames())
        check_columns(schema, options)
        if options.bad_rows != FAIL:
            resolve_folder(options.bad_rows)
        capabilities = self._open(options.store).capabilities
        for field, feature in REQUIRED_FEATURES.items():
            if field in options.columns and not capabilities.has(feature):
                raise Unsupported(capabilities.driver, feature, capabilities.gaps[feature])
        return options


class ClusterSource(HoldfastSource):
    """The same format on a cluster, where all machines must share the store."""

    one_machine = False


def _check_schema(schema: StructType, names: list[str]) -> None:
    if schema.fieldNames() != names:
        raise InvalidInput("schema", wanted=f"the columns {', '.join(names)}", got=", ".join(schema.fieldNames()))
