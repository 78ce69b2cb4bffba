"""A child process that runs several jobs at a time, each in a thread: for handlers that mostly wait.

The main thread only receives messages: jobs, and requests to interrupt one. A handler in a thread is interrupted
between two bytecodes, and an async handler at its next await. A handler in a C call is not interrupted; its process is
killed after the grace time, and the other jobs of the process are released without a counted attempt.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from holdfast.worker.catalogue import Catalogue
from holdfast.worker.event_loop import SharedLoop
from holdfast.worker.limits import RecycleLimits
from holdfast.worker.processes.child import Child, Interruption
from holdfast.worker.processes.forkserver_process import ChildEnds
from holdfast.worker.processes.leftover_processes import LeftoverProcesses
from holdfast.worker.processes.protocol import ChildMessage, InterruptRun, ProcessesEnded, RunJob, RunReturned
from holdfast.worker.processes.shared_deadline import SharedDeadline

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc


class ThreadedChild(Child):
    """Receives jobs in its main thread, and runs them in others."""

    def __init__(
        self,
        catalogue: Catalogue,
        ends: ChildEnds,
        recycle: RecycleLimits,
        *,
        deadline: SharedDeadline,
        leftovers: LeftoverProcesses | None,
        concurrency: int,
    ) -> None:
        super().__init__(catalogue, ends, recycle, deadline=deadline, leftovers=leftovers)
        # The worker sends no signal: the kernel could deliver it to the thread of another handler.
        self._sockets = select.poll()
        for each in (ends.work, ends.interrupts):
            self._sockets.register(each, select.POLLIN)
        self._jobs: SimpleQueue[RunJob | None] = SimpleQueue()  # None ends one thread
        self._claim_lock = threading.Lock()  # held to take a job and its ticket: both come in the same order
        self._interrupt_lock = threading.RLock()  # held while an exception is set in a thread, or removed from it
        self._shared_loop = SharedLoop()
        self._min_fork_seconds = 0.0  # every attempt counts below
        self._running = 0  # attempts
        self._running_lock = threading.Lock()  # of it; held while leftover processes of all threads are searched
        self._threads = [
            threading.Thread(target=self._run_jobs, name=f"holdfast-{number}", daemon=True)
            for number in range(concurrency)
        ]

    def run(self) -> None:
        """Run jobs until the worker sends ``Stop``, or is gone."""
        for thread in self._threads:
            thread.start()
        try:
            while not self._is_stopping and self._receive():
                while self._queued:
                    self._jobs.put(self._queued.popleft())
            self._return_jobs()
            for _ in self._threads:
                self._jobs.put(None)
            for thread in self._threads:
                thread.join()
        finally:
            self._shared_loop.close(self._resources.aclose)
            self._resources.close()

    def _receive(self) -> bool:
        """Wait for messages on both sockets, and handle those that have arrived; False when the worker is gone."""
        ready = {descriptor for descriptor, _ in self._sockets.poll()}
        if self._interrupts.fileno() in ready:
            self._read_interrupts()
        return super()._receive() if self._work.fileno() in ready else True

    def _return_jobs(self) -> None:
        with contextlib.suppress(Empty):
            while work := self._jobs.get_nowait():
                self._send(RunReturned(work.run))

    def _next_job(self) -> tuple[RunJob | None, bool]:
        """Wait for a job; return it, and whether it begins now. None: the thread ends."""
        with self._claim_lock:
            work = self._jobs.get()
            return work, work is not None and self._may_begin(work)

    def _run_jobs(self) -> None:
        """Run jobs in this thread. If the thread itself fails, the process exits, and the worker handles the rest."""
        try:
            while True:
                work, begins = self._next_job()
                if work is None:
                    return
                if not begins:
                    self._send(RunReturned(work.run))
                    continue
                with self._running_lock:
                    self._running += 1
                self._send(self._run_one(work, partial(self._run_coroutine, work.run)))
                self._finished += 1
                if self._is_damaged or self._recycle.is_reached(self._finished):
                    self._work.shutdown(socket.SHUT_RD)  # the main thread reads the end, and returns the queued jobs
        except BaseException:
            os._exit(1)
            raise

    def _end_processes(self, run: int, leftovers: LeftoverProcesses) -> None:
        """End the processes that this thread has started; if no other attempt is running, those of all threads.

        A process that was started in another thread, as by an async handler, may belong to another attempt. It is ended
        when no attempt is running.
        """
        with self._running_lock:
            self._running -= 1
            thread = threading.get_native_id() if self._running else None
            found = leftovers.find(thread=thread)
        if found:
            self._send(ProcessesEnded(run, leftovers.end(found, thread=thread or threading.get_native_id())))

    def _run_coroutine(self, run: int, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run an async handler on the loop that all threads share; this thread waits for it."""
        future = self._shared_loop.submit(coroutine)
        try:
            with self._interrupt_lock:
                interruptible = self._interruptible.get(run)
                if interruptible is not None:
                    interruptible.cancel = future.cancel
            return future.result()
        except CancelledError as cancelled:
            if interruptible is not None and interruptible.stop_reason is None:
                raise  # the handler cancelled itself
            raise Interruption from cancelled
        except Interruption:
            future.cancel()
            raise

    def _end_interruptible(self, run: int) -> None:
        with self._interrupt_lock:
            if self._interruptible.pop(run, None) is None:  # an exception may be set in this thread: too late for it
                _raise_in_thread(ctypes.c_ulong(threading.get_ident()), None)

    def _interrupt(self, message: InterruptRun) -> None:
        with self._interrupt_lock:
            run = self._interruptible.pop(message.run, None)
            if run is None:
                return
            run.mark_stopped(message.reason)
            if run.cancel is not None:
                run.cancel()
            elif run.is_reporting:
                run.interruption_is_due = True
            else:
                _raise_in_thread(ctypes.c_ulong(run.thread), ctypes.py_object(Interruption))

    def _report(self, run: int, message: ChildMessage) -> None:
        """Send a message in the thread of a run: no exception is set in the thread between here and its end.

        One that was set before is raised by the calls in front of the write, when nothing was written yet.
        """
        with self._interrupt_lock:
            interruptible = self._interruptible.get(run)
            if interruptible is not None:
                interruptible.is_reporting = True
        try:
            self._send(message)
        finally:
            if interruptible is not None:
                with self._interrupt_lock:
                    interruptible.is_reporting = False
        if interruptible is not None and interruptible.interruption_is_due:
            interruptible.interruption_is_due = False
            raise Interruption

    def _send(self, *messages: ChildMessage) -> None:
        self._reports.write(messages)
