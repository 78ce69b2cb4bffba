"""Artifacts: files of tasks, and payloads that are too large for a job. Bytes in a blob store, rows in the registry."""
