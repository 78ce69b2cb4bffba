"""``app.builtin``: registers the built-in handlers of an app, each when its method is called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.errors import InvalidInput
from holdfast.handlers import named_functions
from holdfast.handlers.messages import Command, Event, ShellCommand, ShellResult, UrlRequest, UrlResult
from holdfast.model import bounds
from holdfast.net.addresses import Network, parse_network
from holdfast.net.urls import UrlPattern, parse_pattern
from holdfast.settings import check_program
from holdfast.task import Task
from holdfast.worker.catalogue import Handler, make_handler
from holdfast.worker.context import Context

if TYPE_CHECKING:  # the app imports this module
    from holdfast.app import HandlerKeywords, Holdfast

SHELL_TIMEOUT = timedelta(hours=1)  # of one attempt, unless the app or the job says otherwise


class BuiltinHandlers:
    """The built-in handlers of an app. A method registers one, with the keywords of ``app.handler``, and returns it.

    ``allowed`` is the allowlist; None is the setting, which is read when a job runs. An empty one denies everything.
    """

    def __init__(self, app: Holdfast) -> None:
        self._app = app
        self._listeners: dict[str, dict[str, Handler]] = {}  # by event, then by the name of the function
        self._commands: dict[str, Handler] = {}

    def shell(
        self,
        *,
        type: str = "shell",
        allowed: Collection[str] | None = None,
        cwd: str = "/",
        environment: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        unrecoverable_exit_codes: Collection[int] = (),
        **keywords: Unpack[HandlerKeywords],
    ) -> Task[ShellCommand, ShellResult, [ShellCommand], ShellResult]:
        """Run allowed programs; the setting is ``allowed_shell_commands``. No shell reads the arguments.

        A program starts in ``cwd`` with ``environment`` and a plain ``PATH``, without the variables of the worker. An
        exit code other than 0 is a failed attempt; one of ``unrecoverable_exit_codes`` makes a dead letter at once. Of
        stdout and of stderr at most ``max_output_bytes`` are kept. Without ``timeout`` an attempt has an hour.
        """
        from holdfast.handlers.shell import DEFAULT_MAX_OUTPUT_BYTES, ShellRules, run_program  # noqa: PLC0415 - each handler only for apps that use it

        rules = ShellRules(
            cwd=cwd,
            environment=dict(environment or {}),
            max_output_bytes=DEFAULT_MAX_OUTPUT_BYTES if max_output_bytes is None else max_output_bytes,
            unrecoverable_exit_codes=frozenset(unrecoverable_exit_codes),
        )
        chosen = None if allowed is None else tuple(check_program("allowed", path) for path in _texts(allowed))
        keywords.setdefault("timeout", SHELL_TIMEOUT)

        def shell(command: ShellCommand) -> ShellResult:
            programs = self._app.settings.allowed_shell_commands if chosen is None else chosen
            return run_program(command, rules, programs)

        return self._app.handler(type, **keywords)(shell)

    def url(
        self,
        *,
        type: str = "url",
        allowed: Collection[str] | None = None,
        allowed_networks: Collection[str] | None = None,
        methods: Collection[str] | None = None,
        headers: Collection[str] = (),
        ca_file: str | None = None,
        accepted_statuses: Collection[int] = (),
        retried_statuses: Collection[int] | None = None,
        connect_timeout: timedelta = timedelta(seconds=10),
        read_timeout: timedelta = timedelta(seconds=30),
        total_timeout: timedelta = timedelta(seconds=60),
        max_body_bytes: int | None = None,
        **keywords: Unpack[HandlerKeywords],
    ) -> Task[UrlRequest, UrlResult, [UrlRequest, Context], UrlResult]:
        """Send HTTP requests to allowed URLs; the settings are ``allowed_urls`` and ``allowed_networks``.

        Only public addresses are connected to, and those of ``allowed_networks``. No redirect is followed. ``headers``
        are allowed besides the usual ones. ``ca_file`` has the certificates of a private authority.

        A status from 200 to 299, or one of ``accepted_statuses``, is success. From 500, and for ``retried_statuses``
        (408, 425 and 429), the attempt has failed, and ``Retry-After`` is honoured. Others make a dead letter. At most
        ``max_body_bytes`` of the answer are kept.

        The host is the limit key of a job, unless ``limit_key`` says otherwise: 429 and 503 with ``Retry-After`` pause
        all jobs of the host in the queue.
        """
        from holdfast.handlers import url as requests  # noqa: PLC0415 - each handler only for apps that use it
        from holdfast.net.guarded import HEADERS, METHODS, Rules  # noqa: PLC0415 - the same

        most = requests.DEFAULT_MAX_BODY_BYTES if max_body_bytes is None else max_body_bytes
        bounds.check_integer("max_body_bytes", most, most=requests.MAX_BODY_BYTES)
        for field, length in (("connect", connect_timeout), ("read", read_timeout), ("total", total_timeout)):
            bounds.duration_from(f"{field}_timeout", length, least=1)
        chosen_methods = METHODS if methods is None else frozenset(_texts(methods))
        if unknown := chosen_methods - METHODS:
            raise InvalidInput("methods", wanted=f"some of {', '.join(sorted(METHODS))}", got=min(unknown))
        chosen_headers = HEADERS | {name.lower() for name in _texts(headers)}
        chosen = None if allowed is None else _patterns(tuple(_texts(allowed)))
        networks = None if allowed_networks is None else _networks(tuple(_texts(allowed_networks)))
        retried = requests.RETRIED_STATUSES if retried_statuses is None else frozenset(retried_statuses)
        statuses = requests.StatusRules(accepted=frozenset(accepted_statuses), retried=retried)
        Rules(headers=chosen_headers)  # raises for a header that no rule may allow

        def url(request: UrlRequest, ctx: Context) -> UrlResult:
            settings = self._app.settings
            rules = Rules(
                allowed_urls=_patterns(settings.allowed_urls) if chosen is None else chosen,
                allowed_networks=_networks(settings.allowed_networks) if networks is None else networks,
                methods=chosen_methods,
                headers=chosen_headers,
                ca_file=ca_file,
                connect_timeout=connect_timeout,
                read_timeout=read_timeout,
                total_timeout=total_timeout,
                max_body_bytes=most,
            )
            return requests.request_url(request, ctx.job, rules, statuses)

        keywords.setdefault("limit_key", requests.host_of)
        return self._app.handler(type, **keywords)(url)

    def event(
        self, *, type: str = "event", allowed: Collection[str] | None = None, **keywords: Unpack[HandlerKeywords]
    ) -> Task[Event, list[str], [Event, Context], list[str]]:
        """Call the listeners (``@app.on``) of allowed events; the setting is ``allowed_events``.

        If a listener fails, the others run, and the next attempt calls those that have failed. An event without a
        listener waits for an hour, for a worker that has one, and then becomes a dead letter.
        """
        chosen = None if allowed is None else tuple(bounds.check_name("allowed", name) for name in _texts(allowed))

        def event(event: Event, ctx: Context) -> list[str]:
            names = self._app.settings.allowed_events if chosen is None else chosen
            listeners = list(self._listeners.get(event.name, {}).items())
            return named_functions.fire_event(event, ctx, listeners, names)

        return self._app.handler(type, **keywords)(event)

    def command(
        self, *, type: str = "command", allowed: Collection[str] | None = None, **keywords: Unpack[HandlerKeywords]
    ) -> Task[Command, Any, [Command, Context], Any]:
        """Call allowed functions of the app by their registered names (``@app.command``), never by an import path.

        The setting is ``allowed_commands``. The result of the function is that of the job. A command without a function
        waits for an hour, for a worker that has it, and then becomes a dead letter.
        """
        chosen = None if allowed is None else tuple(bounds.check_name("allowed", name) for name in _texts(allowed))

        def command(command: Command, ctx: Context) -> Any:
            names = self._app.settings.allowed_commands if chosen is None else chosen
            return named_functions.run_command(command, ctx, self._commands.get(command.name), names)

        return self._app.handler(type, **keywords)(command)

    def add_listener(self, event: str, function: Callable[..., Any], *, namespace: Mapping[str, Any]) -> None:
        """Call a function for each event of this name."""
        listener = named_functions.check_plain("listener", make_handler(event, function, namespace=namespace))
        name = f"{function.__module__}.{function.__qualname__}"
        listeners = self._listeners.setdefault(event, {})
        if name in listeners:
            raise InvalidInput("listener", wanted="one function of each name for an event", got=f"a second {name}")
        listeners[name] = listener

    def add_command(self, name: str, function: Callable[..., Any], *, namespace: Mapping[str, Any]) -> None:
        """Call a function for each command of this name."""
        command = named_functions.check_plain("command", make_handler(name, function, namespace=namespace))
        if name in self._commands:
            raise InvalidInput("command", wanted="one function for each command", got=f"a second one for {name}")
        self._commands[name] = command


def _texts(values: Collection[str]) -> Collection[str]:
    """Refuse a text in place of a list of texts: its characters would be the list."""
    if isinstance(values, str):
        raise InvalidInput("allowed", wanted="a list of texts", got=values)
    return values


@lru_cache(maxsize=16)
def _patterns(texts: tuple[str, ...]) -> tuple[UrlPattern, ...]:
    return tuple(parse_pattern("allowed_urls", text) for text in texts)


@lru_cache(maxsize=16)
def _networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(parse_network("allowed_networks", text) for text in texts)
