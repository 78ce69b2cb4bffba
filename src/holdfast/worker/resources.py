"""The resources that the handlers of one process share: created at their first use, closed when the process ends.

Async resources live on the event loop of the async handlers. Each is entered and left in a task of its own, because
libraries such as anyio want both to happen in one task.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.log import events
from holdfast.log.records import log_failure

Factory = Callable[[], Any]
Making = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class _Async:
    """A resource that must be entered on the event loop."""

    factory: Factory


class Resources:
    """The resources of one process by name. Safe to share between threads."""

    def __init__(
        self, factories: Mapping[str, Factory], *, making: Making = nullcontext, close_seconds: float = 10.0
    ) -> None:
        """``making`` is entered while a resource is created. An async resource that does not close is cancelled."""
        self._close_seconds = close_seconds
        self._factories = factories
        self._making = making
        self._made: dict[str, Any] = {}
        self._closers: list[tuple[str, Callable[[], object]]] = []  # in the order in which the resources were made
        self._lock = threading.RLock()  # reentrant: a factory may use another resource
        self._on_loop: dict[str, _ResourceTask] = {}  # in the same order
        self._context = contextvars.copy_context()  # of no attempt

    def __getitem__(self, name: str) -> Any:
        """Return the resource; create it if needed. An async resource is refused: see ``aget``."""
        with self._lock:
            made = self._make(name)
        if isinstance(made, _Async):
            raise InvalidInput(
                "resource", wanted=f'`await ctx.resources.aget("{name}")` in an async handler', got="an async resource"
            )
        return made

    def aget(self, name: str) -> Awaitable[Any]:
        """Return the resource, async or not; create it if needed. Only async handlers can await it."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise InvalidInput("resource", wanted="an async handler for `aget`", got="no running event loop") from None
        return self._aget(name)

    async def _aget(self, name: str) -> Any:
        found = self._on_loop.get(name)
        if found is None or not found.is_usable():
            with self._lock:
                made = self._make(name)
            if not isinstance(made, _Async):
                return made
            self._on_loop.pop(name, None)
            found = self._on_loop[name] = _ResourceTask(made.factory, self._making, self._context.copy())
        return await asyncio.shield(found.ready)  # a handler that is cancelled leaves the resource to the others

    def _make(self, name: str) -> Any:
        """Return the resource, or an ``_Async`` that was not entered."""
        if name in self._made:
            return self._made[name]
        if name not in self._factories:
            known = ", ".join(sorted(self._factories)) or "none"
            raise InvalidInput("resource", wanted=f"one of: {known}", got=name)
        factory = self._factories[name]
        if _is_async(factory):
            return _Async(factory)
        with self._making(), ExitStack() as stack:
            value = contextmanager(factory)() if inspect.isgeneratorfunction(factory) else factory()
            if isinstance(value, AbstractContextManager):
                value = stack.enter_context(value)
            elif _must_be_awaited(value):
                return _Async(lambda: value)
            elif callable(getattr(value, "close", None)):
                stack.callback(value.close)
            self._closers.append((name, stack.pop_all().close))
        self._made[name] = value
        return value

    async def aclose(self) -> None:
        """Close the async resources of the running event loop, the newest first. Errors are logged."""
        resources = list(self._on_loop.items())
        self._on_loop.clear()
        for name, resource in reversed(resources):
            await resource.close(name, self._close_seconds)

    @property
    def is_on_loop(self) -> bool:
        """Whether an async resource needs its event loop to stay open."""
        return bool(self._on_loop)

    def close(self) -> None:
        """Close all resources that are not async, the newest first. Errors are logged."""
        self._made.clear()
        while self._closers:
            name, close = self._closers.pop()
            try:
                close()
            except Exception as error:  # noqa: BLE001 - code of the user; the others are closed, too
                _log_failure(name, error)


class _ResourceTask:
    """An async resource, and the task on the running event loop in which it is entered and left."""

    def __init__(self, factory: Factory, making: Making, context: contextvars.Context) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self.ready: asyncio.Future[Any] = self._loop.create_future()
        self.ready.add_done_callback(lambda future: future.cancelled() or future.exception())  # nobody may wait for it
        self._task = self._loop.create_task(self._live(factory, making), context=context)

    def is_usable(self) -> bool:
        return self._loop is asyncio.get_running_loop() and not self._task.done()

    async def _live(self, factory: Factory, making: Making) -> None:
        try:
            async with AsyncExitStack() as stack:
                with making():
                    value = await _enter(stack, factory)
                self.ready.set_result(value)
                await self._closing.wait()
        except asyncio.CancelledError:
            self.ready.cancel()
            raise
        except BaseException as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)

    async def close(self, name: str, seconds: float) -> None:
        if not self.is_usable():  # its event loop was closed, which has cancelled it
            return
        self._closing.set()
        if not self.ready.done():
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=seconds)
        if not self._task.done():
            self._task.cancel()
            _log_failure(name, TimeoutError(f"not closed within {seconds} s"))
        elif not self._task.cancelled() and (error := self._task.exception()) is not None:
            _log_failure(name, error)


async def _enter(stack: AsyncExitStack, factory: Factory) -> Any:
    value = asynccontextmanager(factory)() if inspect.isasyncgenfunction(factory) else factory()
    if inspect.isawaitable(value) and not isinstance(value, AbstractAsyncContextManager):
        value = await value
    if isinstance(value, AbstractAsyncContextManager):
        return await stack.enter_async_context(value)
    if isinstance(value, AbstractContextManager):
        return stack.enter_context(value)
    close = getattr(value, "aclose", None) or getattr(value, "close", None)
    if callable(close):
        stack.push_async_callback(_call_close, close)
    return value


async def _call_close(close: Callable[[], object]) -> None:
    answer = close()
    if inspect.isawaitable(answer):
        await answer


def _is_async(factory: Factory) -> bool:
    """Whether the factory is an ``async def``, with or without ``yield`` or ``@asynccontextmanager``."""
    function = inspect.unwrap(factory)
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _must_be_awaited(value: object) -> bool:
    if isinstance(value, AbstractAsyncContextManager) or inspect.isawaitable(value):
        return True
    close = getattr(value, "close", None)
    return hasattr(value, "aclose") if close is None else inspect.iscoroutinefunction(close)


def _log_failure(name: str, error: BaseException) -> None:
    log_failure(events.RESOURCE_CLOSE_FAILED, error, resource=name, reason=str(error))
