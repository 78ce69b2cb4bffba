"""The format ``holdfast`` of Spark: one name for the sink and for the sources.

Spark makes a ``DataSource`` in a Python process of the Spark driver and asks it for writers and readers there: so
options are read, and refused, before any Spark task runs. What it gives is pickled by reference: executors have
Holdfast installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType
from uuid_utils import uuid7

from holdfast.drivers.contract import Feature, Store
from holdfast.errors import InvalidInput, SparkUnavailable, Unsupported
from holdfast.spark.datasource import column_types, jobs_table, ledger_table, options
from holdfast.spark.datasource.bad_rows import place_of
from holdfast.spark.datasource.source import JobsReader, LedgerReader
from holdfast.spark.execution.slot import store_of
from holdfast.spark.store_access import check

if TYPE_CHECKING:
    from holdfast.spark.datasource.sink import StreamWriter, Writer

FORMAT = "holdfast"
NEEDS = {  # column of a field: what the store must keep for it
    "offset": Feature.OFFSETS,
    "domain": Feature.DOMAINS,
    "priority": Feature.PRIORITIES,
    "run_at": Feature.SCHEDULING,
    "delay": Feature.SCHEDULING,
}


class HoldfastSource(DataSource):
    """``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream`` with ``.format("holdfast")``."""

    one_machine = True  # Spark does not say where it runs in the process that asks this; whoever registers knows

    @classmethod
    def name(cls) -> str:
        """What stands in ``.format(...)``."""
        return FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> Writer:  # noqa: FBT001 - so Spark calls it
        """For ``df.write``."""
        from holdfast.spark.datasource.sink import Writer  # noqa: PLC0415 - as new as the Spark that asks

        asked = self._sink(schema, overwrite=overwrite)
        return Writer(asked, schema.fieldNames(), asked.run or str(uuid7()))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: FBT001, N802 - the same
        """For ``df.writeStream``."""
        try:
            from holdfast.spark.datasource.sink import StreamWriter  # noqa: PLC0415 - the same
        except ImportError as error:
            raise SparkUnavailable("wanted pyspark 4.1 or newer to write streams as Arrow, got an older one") from error
        return StreamWriter(self._sink(schema, overwrite=overwrite), schema.fieldNames())

    def schema(self) -> str:
        """The columns of the table that is asked for: the jobs, or the ledger."""
        table = str(self.options.get("table") or self.options.get("path") or "")
        return ledger_table.DDL if table == "ledger" else jobs_table.DDL  # a reader refuses what is neither

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        asked = options.source(self.options, stream=False)
        _as_it_is(schema, jobs_table.SCHEMA.names if asked.table == "jobs" else ledger_table.SCHEMA.names)
        self._store(asked.place)
        return JobsReader(asked) if asked.table == "jobs" else LedgerReader(asked)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - so Spark calls it
        """For ``spark.readStream``."""
        try:
            from holdfast.spark.datasource.stream import LedgerStreamReader  # noqa: PLC0415 - as new as the Spark that asks
        except ImportError as error:
            raise SparkUnavailable("wanted pyspark 4.2 or newer, which tells a stream where to go on") from error
        asked = options.source(self.options, stream=True)
        _as_it_is(schema, ledger_table.SCHEMA.names)
        self._store(asked.place)
        return LedgerStreamReader(asked)

    def _store(self, place: options.Place) -> Store:
        """The store, open; refuses one that the Python processes of this Spark cannot share."""
        store = store_of(place.url, place.space)
        check(store, one_machine=self.one_machine)
        return store

    def _sink(self, schema: StructType, *, overwrite: bool) -> options.Sink:
        if overwrite:
            raise InvalidInput("mode", wanted="append: jobs are added, never replaced", got="overwrite")
        asked = options.sink(self.options, schema.fieldNames())
        column_types.check(schema, asked)
        if asked.bad_rows != options.FAIL:
            place_of(asked.bad_rows)
        kept = self._store(asked.place).capabilities
        for field, feature in NEEDS.items():
            if field in asked.columns and not kept.has(feature):
                raise Unsupported(kept.driver, feature, kept.gaps[feature])
        return asked


class ClusterSource(HoldfastSource):
    """The same on a cluster, where a store must be one for all machines."""

    one_machine = False


def _as_it_is(schema: StructType, names: list[str]) -> None:
    if schema.fieldNames() != names:
        raise InvalidInput("schema", wanted=f"the columns {', '.join(names)}", got=", ".join(schema.fieldNames()))
