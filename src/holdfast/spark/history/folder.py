"""A folder on any file system that Spark can reach. Runs on the Spark driver, through the Hadoop classes of its JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from uuid_utils import uuid7

from holdfast.errors import Unsupported

CHECKSUM_FILES = "org.apache.hadoop.fs.ChecksumFileSystem"  # local disks: a read fails if the ".crc" beside differs


class Folder:
    """The files of one folder. Paths are relative to the folder."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise Unsupported("Spark Connect", "histories", "its clients have no filesystem; use a classic session")
        self._hadoop = jvm.org.apache.hadoop.fs
        self._io = jvm.org.apache.commons.io.IOUtils
        self._digests = jvm.org.apache.commons.codec.digest.DigestUtils
        session: Any = spark
        conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - the only way to a filesystem
        path = self._hadoop.Path(root)
        self._files = path.getFileSystem(conf)
        has_checksums = jvm.java.lang.Class.forName(CHECKSUM_FILES).isInstance(self._files)
        self._raw_files = self._files.getRawFileSystem() if has_checksums else self._files
        path = self._files.makeQualified(path)
        self._context = self._hadoop.FileContext.getFileContext(path.toUri(), conf)
        self._no_options = session._sc._gateway.new_array(self._hadoop.Options.Rename, 0)  # noqa: SLF001
        self.root = str(path.toString()).rstrip("/")

    def at(self, path: str) -> str:
        """Return the full path of a file or folder."""
        return f"{self.root}/{path}"

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, sorted; an empty list if the folder does not exist."""
        folder = self._path(path)
        return sorted(each.getPath().getName() for each in self._files.listStatus(folder)) if self._has(folder) else []

    def age(self, path: str, now: int) -> int:
        """Return the microseconds since the last change of a file."""
        return now - int(self._files.getFileStatus(self._path(path)).getModificationTime()) * 1000

    def read(self, path: str) -> str:
        """Return the text of a file."""
        stream = self._files.open(self._path(path))
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return int(self._files.getFileStatus(self._path(path)).getLen())

    def checksum(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes, in hexadecimal, also if Hadoop's own checksum differs."""
        stream = self._raw_files.open(self._path(path))
        try:
            return str(self._digests.sha256Hex(stream))
        finally:
            stream.close()

    def create(self, path: str, text: str) -> bool:
        """Create a file with this text, completely or not at all. Return False if the file exists."""
        target = self._path(path)
        if self._has(target):
            return False
        draft = self._path(f"{path.rpartition('/')[0]}/.{uuid7()}")
        stream = self._files.create(draft)
        try:
            self._io.write(text, stream, "UTF-8")
        finally:
            stream.close()
        try:
            self._context.rename(draft, target, self._no_options)  # fails if the target exists
        except Exception:
            self._files.delete(draft, False)  # noqa: FBT003 - Java has no keyword arguments
            if self._has(target):
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all files in it."""
        self._files.delete(self._path(path), True)  # noqa: FBT003 - Java has no keyword arguments

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(self.at(path))

    def _has(self, path: Any) -> bool:
        return bool(self._files.exists(path))
