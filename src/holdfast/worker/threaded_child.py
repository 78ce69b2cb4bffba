"""A child that runs several jobs at a time, each in a thread: for handlers that mostly wait.

The main thread only listens, so that signals are always heard. A Python thread is interrupted between two bytecodes and
an async handler at its next await; one that sits in a C call is not, and then its process is killed after the grace.
Its neighbours are given back, uncounted.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from holdfast.worker import protocol
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.child import Child, Interruption
from holdfast.worker.event_loop import SharedLoop
from holdfast.worker.limits import Term
from holdfast.worker.protocol import Interrupt, Work

_raise_in_thread = ctypes.pythonapi.PyThreadState_SetAsyncExc


class ThreadedChild(Child):
    """Takes work in its main thread, and hands it to others."""

    def __init__(
        self,
        catalogue: Catalogue,
        line: socket.socket,
        interrupts: socket.socket,
        says: int,
        term: Term,
        *,
        concurrency: int,
    ) -> None:
        super().__init__(catalogue, line, interrupts, says, term)
        self._handed: SimpleQueue[Work | None] = SimpleQueue()
        self._mouth = threading.Lock()
        self._ending = False
        self._leaving = threading.RLock()  # held while an exception is put into a thread, or taken back out of it
        self._shared = SharedLoop()
        self._threads = [
            threading.Thread(target=self._run_on, name=f"holdfast-{number}", daemon=True)
            for number in range(concurrency)
        ]

    def run(self) -> None:
        """Until told to stop, or until the parent is gone."""
        for thread in self._threads:
            thread.start()
        try:
            while not self._stopping and self._receive():
                while self._waiting:
                    self._handed.put(self._waiting.popleft())
            self._ending = True
            self._give_back()
            for _ in self._threads:
                self._handed.put(None)
            for thread in self._threads:
                thread.join()
        finally:
            self._resources.close()

    def _give_back(self) -> None:
        while not self._handed.empty():
            work = self._handed.get()
            if work is not None:
                self._say(protocol.GivenBack(work.run))

    def _give_up_waiting(self) -> None:
        """In the main thread, in the middle of anything; if somebody is speaking, the parent will ask again."""
        if self._ending or not self._mouth.acquire(blocking=False):
            return
        try:
            given: list[protocol.Frame] = []
            with contextlib.suppress(Empty):
                while work := self._handed.get_nowait():
                    given.append(protocol.GivenBack(work.run))
            self._write(protocol.packed(given))
        finally:
            self._mouth.release()

    def _run_on(self) -> None:
        """One thread, until there is no more work. If it fails itself the process goes: the parent sees to the rest."""
        try:
            while (work := self._handed.get()) is not None:
                self._say(self._run_one(work, partial(self._complete, work.run)))
                self._finished += 1
                if self._term.is_over(self._finished):
                    self._line.shutdown(socket.SHUT_RD)  # the main thread hears the end, and gives back the rest
        except BaseException:
            os._exit(1)
            raise

    def _complete(self, run: int, coroutine: Coroutine[Any, Any, object]) -> object:
        """An async handler, on the loop that all threads share; this one waits for it."""
        future = self._shared.begin(coroutine)
        try:
            with self._leaving:
                present = self._present.get(run)
                if present is not None:
                    present.cancel = future.cancel
            return future.result()
        except CancelledError as cancelled:
            if present is not None and present.why is None:
                raise  # the handler's own doing
            raise Interruption from cancelled
        except Interruption:
            future.cancel()
            raise

    def _leave(self, run: int) -> None:
        with self._leaving:
            if self._present.pop(run, None) is None:  # an exception may be on its way: too late for it
                _raise_in_thread(ctypes.c_ulong(threading.get_ident()), None)

    def _interrupt(self, frame: Interrupt) -> None:
        with self._leaving:
            present = self._present.pop(frame.run, None)
            if present is None:
                return
            present.stop(frame.why)
            if present.cancel is not None:
                present.cancel()
            else:
                _raise_in_thread(ctypes.c_ulong(present.thread), ctypes.py_object(Interruption))

    def _say(self, *said: protocol.Frame) -> None:
        data = protocol.packed(said)
        with self._mouth:
            self._write(data)
