"""Functions of an app by name: the listeners of events, and commands. A job names them; no import path is used."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

from holdfast.errors import InvalidInput, PayloadError
from holdfast.handlers.messages import Command, Event
from holdfast.model import bounds
from holdfast.worker.attempt import check_finished
from holdfast.worker.catalogue import Handler
from holdfast.worker.context import Context
from holdfast.worker.control import Snooze, Unrecoverable

# A worker of an older version may not have the function yet: as long as for a type without a handler.
MISSING_DELAY = timedelta(seconds=10)
MISSING_BUDGET = timedelta(hours=1)


def check_plain(field: str, function: Handler) -> Handler:
    """Refuse an async function. Its resources live on the event loop of async handlers, where this is not called."""
    if function.is_async:
        raise InvalidInput(field, wanted="a plain function; an async one can be a handler", got="an async function")
    return function


def fire_event(
    event: Event, context: Context, listeners: Sequence[tuple[str, Handler]], allowed: Collection[str]
) -> list[str]:
    """Call every listener of the event that has not succeeded in an earlier attempt; return the names of all.

    One that fails does not keep the others from running. Then the attempt fails, and the next one calls only those that
    have failed.
    """
    _check_allowed("event", event.name, allowed, setting="allowed_events")
    if not listeners:
        raise Snooze(MISSING_DELAY, MISSING_BUDGET, f"no listener for the event {event.name}")
    checkpoint = context.checkpoint  # of an earlier attempt
    done = [name for name in checkpoint if isinstance(name, str)] if isinstance(checkpoint, list) else []
    failures: list[Exception] = []
    for name, listener in listeners:
        if name in done:
            continue
        try:
            _call(listener, event.payload, context)
            done.append(name)
        except Exception as failure:  # noqa: BLE001 - any exception of the user's function
            failures.append(failure)
        if context.checkpoint != done:  # also if the listener has set it: the checkpoint belongs to all of them
            context.checkpoint = list(done)
    if len(failures) == 1:
        raise failures[0]  # it may be a Retry
    if failures:
        raise ExceptionGroup(f"{len(failures)} listeners of {event.name} failed", failures)
    return done


def run_command(command: Command, context: Context, function: Handler | None, allowed: Collection[str]) -> object:
    """Call the function of the app that has this name; return its result."""
    _check_allowed("command", command.name, allowed, setting="allowed_commands")
    if function is None:
        raise Snooze(MISSING_DELAY, MISSING_BUDGET, f"no command {command.name}")
    return _call(function, command.payload, context)


def _check_allowed(what: str, name: str, allowed: Collection[str], *, setting: str) -> None:
    if name not in allowed:
        shown = bounds.truncate_text(name, bounds.MAX_NAME_CHARACTERS)
        raise Unrecoverable(f"not allowed: the {what} {shown!r} is not in {setting}")


def _call(function: Handler, payload: object, context: Context) -> object:
    """Call the function. A payload that it does not take can never be right."""
    try:
        typed = function.decode(payload)
    except PayloadError as error:
        raise Unrecoverable(f"bad payload: {error}") from error
    answer = function.function(typed, context) if function.wants_context else function.function(typed)
    if isinstance(answer, Exception) or (isinstance(answer, type) and issubclass(answer, Exception)):
        raise answer  # returned or raised, the effect is the same
    check_finished(answer)
    return answer
