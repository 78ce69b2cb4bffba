"""The Spark data source ``holdfast``: write rows as jobs; read jobs and the ledger, in batches and as a stream."""
