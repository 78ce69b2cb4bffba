"""The type of a payload or a result, as an annotation says it: values become JSON, and JSON becomes values.

msgspec converts dataclasses, Structs, TypedDicts, enums, datetimes and the like, also with models of pydantic as their
fields. A type that has pydantic in it (``Model``, ``list[Model]``, ``Model | None``) is converted by pydantic, which is
imported only then.
"""

from __future__ import annotations

import sys
import types
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from typing import Annotated, Any, Protocol, Union, get_args, get_origin

import msgspec

from holdfast.errors import InvalidInput, PayloadError
from holdfast.wire.codec import check_unmasked, dump_member

MAX_SHOWN_MISMATCHES = 3


class ValueType:
    """A type of values. It survives pickling if its annotation does."""

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def __repr__(self) -> str:
        return f"ValueType({type_name(self.annotation)})"

    def __getstate__(self) -> dict[str, object]:
        """Leave out the conversion: it is made again."""
        return {"annotation": self.annotation}

    def decode(self, value: object, *, field: str = "payload") -> object:
        """Return the value of this type that a JSON value stands for. Raises ``PayloadError`` if it does not fit.

        A value that has this type already is returned as it is.
        """
        conversion = self._conversion
        try:
            return conversion.read(value)
        except (ValueError, RecursionError) as error:  # msgspec.ValidationError is a ValueError
            raise self._mismatch(field, error) from error

    def encode(self, value: object, *, field: str = "payload") -> object:
        """Return the JSON value for a value of this type. Raises ``PayloadError`` for one that does not fit.

        A JSON value that fits is accepted, too, and becomes what the value of this type would: with its defaults.
        """
        conversion = self._conversion
        typed = self.decode(value, field=field)
        try:
            built = conversion.write(typed)
        except PayloadError as error:
            raise PayloadError(field, wanted=error.wanted, got=error.got) from error
        except (TypeError, ValueError, RecursionError) as error:
            raise self._mismatch(field, error) from error
        self.decode(built, field=field)  # an instance may have fields of other types: nothing checked them
        return built

    def _mismatch(self, field: str, error: Exception) -> PayloadError:
        return PayloadError(field, wanted=type_name(self.annotation), got=_explain(error))

    @cached_property
    def _conversion(self) -> _Conversion:
        if isinstance(self.annotation, str):
            raise _unreadable(self.annotation, "it cannot be evaluated")
        if not _contains_pydantic(self.annotation):
            try:
                msgspec.json.Decoder(self.annotation, dec_hook=_read_member)
                return _Msgspec(self.annotation)
            except (TypeError, NameError) as error:
                if "pydantic" not in sys.modules:
                    raise _unreadable(self.annotation, error) from error
        from pydantic.errors import PydanticUserError  # noqa: PLC0415 - see the top of the file

        try:
            return _Pydantic(self.annotation)
        except (PydanticUserError, NameError) as error:
            raise _unreadable(self.annotation, error) from error


def _unreadable(annotation: object, error: object) -> InvalidInput:
    wanted = "an annotation that msgspec or pydantic can read"
    return InvalidInput("handler", wanted=wanted, got=f"{type_name(annotation)}: {error}")


class _Conversion(Protocol):
    """How one library converts. ``read`` and ``write`` raise ``ValueError`` for a value that does not fit."""

    def read(self, value: object) -> object: ...

    def write(self, value: object) -> object: ...


class _Msgspec:
    def __init__(self, annotation: Any) -> None:
        self._type = annotation

    def read(self, value: object) -> object:
        return msgspec.convert(value, type=self._type, str_keys=True, dec_hook=_read_member)

    def write(self, value: object) -> object:
        _set_defaults(value)
        return msgspec.to_builtins(value, str_keys=True, enc_hook=dump_member)


def _set_defaults(value: Any) -> None:
    """Set the defaults of dataclasses on the objects: msgspec leaves them in the class, and then does not write them.

    Without it, the payload of ``Mail("ada")`` would differ from that of ``{"to": "ada"}``.
    """
    match value:
        case None | str() | int() | float():
            pass
        case list() | tuple() | set() | frozenset():
            for one in value:
                _set_defaults(one)
        case dict():
            for one in value.values():
                _set_defaults(one)
        case msgspec.Struct():
            for name in value.__struct_fields__:
                _set_defaults(getattr(value, name))
        case _ if is_dataclass(value):
            for field in (one for one in fields(value) if hasattr(value, one.name)):
                member = getattr(value, field.name)
                object.__setattr__(value, field.name, member)  # also of a frozen one
                _set_defaults(member)


def _read_member(wanted: type, value: object) -> object:
    """Return a value of a type that msgspec does not know: a model of pydantic within a dataclass, for example."""
    if isinstance(value, wanted):
        return value
    if hasattr(wanted, "model_validate"):
        try:
            return wanted.model_validate(value)
        except ValueError as error:
            raise ValueError(_explain(error)) from error
    raise TypeError(f"Expected `{type_name(wanted)}`, got `{type(value).__name__}`")


class _Pydantic:
    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - see the top of the file

        self._adapter: Any = TypeAdapter(annotation)
        self._error = ValidationError

    def read(self, value: object) -> object:
        try:
            return self._adapter.validate_python(value)
        except self._error as error:
            try:  # a strict model takes a datetime as text from JSON only
                data = msgspec.json.encode(value)
                if msgspec.json.decode(data) == value:
                    return self._adapter.validate_json(data)
            except (TypeError, ValueError, RecursionError):
                pass
            raise error from None

    def write(self, value: object) -> object:
        built = self._adapter.dump_python(value, mode="json", by_alias=True, round_trip=True, warnings=False)
        return check_unmasked(built, partial(self._adapter.dump_python, value, round_trip=True, warnings=False))


def _explain(error: Exception) -> str:
    """Return why a value does not fit; for an error of pydantic where and why, without the value: it may be secret."""
    if not hasattr(error, "errors"):
        return str(error)
    found = error.errors(include_url=False, include_context=False)
    shown = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}{_got(one)}".removeprefix(": ") for one in found]
    more = [f"and {len(found) - MAX_SHOWN_MISMATCHES} more"] if len(found) > MAX_SHOWN_MISMATCHES else []
    return "; ".join([*shown[:MAX_SHOWN_MISMATCHES], *more])


def _got(mismatch: dict[str, Any]) -> str:
    """Return the type of the value, for a mismatch that is about its type."""
    return f", not {type(mismatch['input']).__name__}" if mismatch["type"].endswith("_type") else ""


def _contains_pydantic(annotation: object) -> bool:
    """Whether a type of pydantic, or a constraint of pydantic, is in the annotation itself."""
    if "pydantic" not in sys.modules:
        return False
    if hasattr(annotation, "__get_pydantic_core_schema__") or hasattr(annotation, "__pydantic_validator__"):
        return True
    if get_origin(annotation) is Annotated:
        inner, *constraints = get_args(annotation)
        return _contains_pydantic(inner) or any(_is_of_pydantic(one) for one in constraints)
    return any(_contains_pydantic(one) for one in get_args(annotation))


def _is_of_pydantic(constraint: object) -> bool:
    return type(constraint).__module__.partition(".")[0] in ("annotated_types", "pydantic")


def type_name(annotation: object) -> str:
    """Return the annotation as a user writes it, without modules: ``list[Mail]``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "None"
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if origin is not None and arguments and hasattr(origin, "__name__"):
        return f"{origin.__name__}[{', '.join(map(type_name, arguments))}]"
    return str(getattr(annotation, "__name__", annotation))
