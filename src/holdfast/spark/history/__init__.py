"""The ledger and the jobs as Parquet: sync, summaries, compaction, audit."""
