"""A function that the JVM of the Spark driver calls before it shuts down. Runs on the Spark driver.

Under ``spark-submit`` the JVM is the parent of the Python process: a kill of the application (Kubernetes,
``spark-submit --kill``) sends SIGTERM to the JVM only. Its shutdown hooks then stop Spark at once.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from holdfast.clock import monotonic
from holdfast.spark.store_access import is_connect

HOOK_PRIORITY = 100  # Spark's own hooks have 40, and hooks with a higher priority run first
UNLIMITED_SECONDS = 10**9
ANSWER_SECONDS = 5.0  # for the JVM to receive the answer of a hook
POLL_SECONDS = 0.02


@contextlib.contextmanager
def before_shutdown(spark: SparkSession, call: Callable[[], None], *, timeout_seconds: float | None) -> Iterator[None]:
    """Call a function, in another thread, if the JVM shuts down during the ``with`` block.

    The JVM waits for at most the timeout until the function has returned and this process exits: code that cleans up
    still has a Spark. The function is never called where there is no JVM (Spark Connect), or where a platform forbids
    hooks.
    """
    if is_connect(spark):
        yield
        return
    from py4j.protocol import Py4JError  # noqa: PLC0415 - a Connect-only pyspark has no py4j

    hook = None
    with contextlib.suppress(Py4JError):
        hook = _Hook(spark.sparkContext, call, timeout_seconds)
    try:
        yield
    finally:
        if hook is not None:
            with contextlib.suppress(Py4JError):  # during the shutdown a hook cannot be removed
                hook.remove()


class _Hook:
    """A hook in Hadoop's manager of shutdown hooks, which Spark uses too."""

    def __init__(self, context: Any, call: Callable[[], None], timeout_seconds: float | None) -> None:
        from pyspark.java_gateway import ensure_callback_server_started  # noqa: PLC0415 - imports py4j

        self._call = call
        self._is_exiting = threading.Event()
        jvm = context._jvm  # noqa: SLF001 - pyspark has no public access to its JVM
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001 - the same
        self._hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
        self._task = jvm.java.util.concurrent.FutureTask(_Runnable(self._run), None)
        seconds = UNLIMITED_SECONDS if timeout_seconds is None else int(timeout_seconds) + 1
        self._hooks.addShutdownHook(self._task, HOOK_PRIORITY, seconds, jvm.java.util.concurrent.TimeUnit.SECONDS)

    def remove(self) -> None:
        self._call = _do_nothing  # py4j holds this object until the JVM collects it: release what the function holds
        self._hooks.removeShutdownHook(self._task)

    def _run(self) -> None:
        atexit.register(self._release)
        self._call()
        self._is_exiting.wait()

    def _release(self) -> None:
        """Let the JVM go on, and wait until it has the answer: it prints a Java trace for an answer that is missing."""
        self._is_exiting.set()
        deadline = monotonic() + ANSWER_SECONDS
        with contextlib.suppress(Exception):  # the JVM may be gone
            while not self._task.isDone() and monotonic() < deadline:
                threading.Event().wait(POLL_SECONDS)


def _do_nothing() -> None:
    pass


class _Runnable:
    """A ``java.lang.Runnable`` in Python."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def run(self) -> None:
        self._call()

    class Java:
        implements: ClassVar = ["java.lang.Runnable"]
