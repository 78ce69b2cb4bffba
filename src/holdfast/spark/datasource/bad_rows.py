"""The table of bad rows: a folder of Parquet files with every refused row and the reason. Runs on executors.

Each Spark task writes one file. A Spark task that runs again replaces its file. A file gets its name only when it is
complete, so readers never see a part of it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
from uuid_utils import uuid4

from holdfast.errors import InvalidInput
from holdfast.spark.datasource.column_types import REASON, RUN


class BadRowsFile:
    """The bad rows of one partition. No file is written if there are none."""

    def __init__(self, folder: str, run: str, partition: int) -> None:
        self._files, self._folder = resolve_folder(folder)
        name = hashlib.blake2b(run.encode(), digest_size=8).hexdigest()
        self._path = f"{self._folder}/{name}-{partition:05d}.parquet"
        self._draft = f"{self._folder}/.{name}-{partition:05d}.{uuid4()}"  # Spark ignores hidden files
        self._run = run
        self._writer: Any = None
        self.count = 0

    def add(self, rows: pa.RecordBatch, reasons: Sequence[str]) -> None:
        """Write these rows, each with its reason."""
        table = pa.Table.from_batches([rows])
        table = table.append_column(REASON, pa.array(reasons, pa.string()))
        table = table.append_column(RUN, pa.array([self._run] * len(reasons), pa.string()))
        if self._writer is None:
            self._files.create_dir(self._folder, recursive=True)
            self._writer = pyarrow.parquet.ParquetWriter(self._draft, table.schema, filesystem=self._files)
        self._writer.write_table(table)
        self.count += len(reasons)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._writer is None:
            return
        self._writer.close()
        if kind is None:
            self._files.move(self._draft, self._path)
        else:
            with contextlib.suppress(OSError):
                self._files.delete_file(self._draft)


def resolve_folder(folder: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return the file system and the path of a folder, given as URI or as absolute path. Raises ``InvalidInput``."""
    try:
        files, path = pyarrow.fs.FileSystem.from_uri(folder)
    except (pa.ArrowInvalid, OSError) as error:
        wanted = "fail, or the absolute path or the URI of a folder that every executor can write to"
        raise InvalidInput("option bad_rows", wanted=wanted, got=folder) from error
    return files, path
