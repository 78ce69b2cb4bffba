"""Histories: the ledger and the jobs as Parquet, with sync, summaries, compaction and audit."""
