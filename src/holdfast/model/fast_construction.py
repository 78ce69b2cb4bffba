"""Building frozen dataclasses fast, for code that builds them by the thousand.

The ``__init__`` of a frozen dataclass calls ``object.__setattr__`` for every field: some microseconds for a job, more
than the rest of what a reserve does for that job. ``mutable_twin`` makes a class with the same slots that is not
frozen. An object of this class is filled by plain assignments, ten times as fast, and then changes its class to the
frozen one, which CPython allows for equal ``__slots__``:

    job = MutableJobRecord()
    job.id = ...                # every field: the twin has no defaults
    job.__class__ = JobRecord

``compile_reader`` writes such a function from a list of columns, ``compile_constructor`` one with the arguments of the
class, and ``compile_packer`` writes their opposite, so that no code repeats the fields of a record. All are unrolled: a
loop over field names takes eight times as long, and an ``attrgetter`` of twenty fields three times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


def mutable_twin(frozen: type) -> Any:
    """Return a mutable class with the slots of a frozen, slotted dataclass that inherits from nothing."""
    return type(f"Mutable{frozen.__name__}", (), {"__slots__": frozen.__slots__})  # type: ignore[attr-defined]


class Checks(NamedTuple):
    """Which rows a reader accepts. ``otherwise`` answers for every other row, called like the reader."""

    conditions: Sequence[
        str
    ]  # expressions: ``_name`` is the value of a column, ``name`` an argument or one of ``names``
    names: Mapping[str, object]
    failures: tuple[type[Exception], ...]  # of conditions and converters: they count as a condition that is not met
    otherwise: Callable[..., Any]


def compile_reader(
    frozen: type[T],
    columns: Sequence[str],
    *,
    arguments: Sequence[str] = (),
    constants: Mapping[str, object] | None = None,
    converters: Mapping[str, Callable[[Any], object]] | None = None,
    checks: Checks | None = None,
) -> Callable[..., T]:
    """Return a function that builds a ``frozen`` from a row and from further positional arguments.

    ``columns`` name the field for each column of the row; a column named ``_`` is ignored. ``arguments`` are fields
    that the caller passes after the row, ``constants`` fields that are the same in every object. ``converters`` are
    applied to the values of their columns.

    Every field must come from exactly one of the three; otherwise this raises ``ValueError``.
    """
    constants, converters = constants or {}, converters or {}
    fields = [name for name in (*columns, *arguments, *constants) if name != "_"]
    if sorted(fields) != sorted(frozen.__slots__):  # type: ignore[attr-defined]
        raise ValueError(f"wanted each field of {frozen.__name__} once, got {fields}")
    variables = [name for name in columns if name != "_" and (checks is not None or name in converters)]
    targets = ["_" if name == "_" else f"_{name}" if name in variables else f"value.{name}" for name in columns]
    parameters = ", ".join(("row", *arguments))
    unpack = ["value = twin()", f"({', '.join(targets)},) = row"]
    fill = [
        *(
            f"value.{name} = convert_{name}(_{name})" if name in converters else f"value.{name} = _{name}"
            for name in variables
        ),
        *(f"value.{name} = {name}" for name in arguments),
        *(f"value.{name} = constant_{name}" for name in constants),
        "value.__class__ = frozen",
        "return value",
    ]
    if checks is None:
        body = [*unpack, *fill]
    else:
        condition = " and ".join(f"({one})" for one in checks.conditions)
        body = [
            "try:",
            *_indent([*unpack, f"if {condition}:", *_indent(fill)]),
            "except failures: pass",
            f"return otherwise({parameters})",
        ]
    namespace: dict[str, Any] = {
        "twin": mutable_twin(frozen),
        "frozen": frozen,
        **({} if checks is None else {**checks.names, "failures": checks.failures, "otherwise": checks.otherwise}),
        **{f"convert_{name}": convert for name, convert in converters.items()},
        **{f"constant_{name}": value for name, value in constants.items()},
    }
    reader: Callable[..., T] = _compile("read", [f"def read({parameters}):", *body], namespace)
    return reader


def compile_constructor(frozen: type[T]) -> Callable[..., T]:
    """Return a function with the keyword arguments of a frozen dataclass that has no ``__post_init__``."""
    own: tuple[Field[Any], ...] = fields(frozen)  # type: ignore[arg-type]
    names = [field.name for field in own]
    factories = {field.name: field.default_factory for field in own if field.default_factory is not MISSING}
    defaults = {field.name: field.default for field in own if field.default is not MISSING}
    lines = [
        f"def construct(*, {', '.join(_parameter(name, defaults, factories) for name in names)}):",
        "value = twin()",
        *(f"if {name} is missing: {name} = factory_{name}()" for name in factories),
        *(f"value.{name} = {name}" for name in names),
        "value.__class__ = frozen",
        "return value",
    ]
    namespace: dict[str, Any] = {
        "twin": mutable_twin(frozen),
        "frozen": frozen,
        "missing": MISSING,
        **{f"default_{name}": value for name, value in defaults.items()},
        **{f"factory_{name}": factory for name, factory in factories.items()},
    }
    constructor: Callable[..., T] = _compile("construct", lines, namespace)
    return constructor


def compile_packer(fields: Sequence[str], *, arguments: Sequence[str] = ()) -> Callable[..., tuple[Any, ...]]:
    """Return a function of an object and of ``arguments``; it returns the arguments and then the fields as a tuple."""
    values = [*arguments, *(f"value.{name}" for name in fields)]
    lines = [f"def pack(value, {', '.join(arguments)}):", f"return ({', '.join(values)},)"]
    packer: Callable[..., tuple[Any, ...]] = _compile("pack", lines, {})
    return packer


def _compile(name: str, lines: Sequence[str], namespace: dict[str, Any]) -> Any:
    """Compile the lines of one function; only names of fields and arguments enter its text, as in ``dataclasses``."""
    exec("\n    ".join(lines), namespace)  # noqa: S102
    return namespace[name]


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _parameter(name: str, defaults: Mapping[str, object], factories: Mapping[str, object]) -> str:
    if name in factories:
        return f"{name}=missing"
    return f"{name}=default_{name}" if name in defaults else name
