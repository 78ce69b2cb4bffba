"""Records that compiled functions build are equal to those that their constructors build."""

from dataclasses import FrozenInstanceError, dataclass, field

import pytest

from holdfast.model.fast_construction import compile_constructor, compile_packer, compile_reader


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int
    name: str = "origin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    text: str
    pages: list[int] = field(default_factory=list)
    size: int = 1


def test_a_reader_fills_fields_from_columns_arguments_and_constants():
    read = compile_reader(Point, ("_", "y"), arguments=("x",), constants={"name": "p"}, converters={"y": int})
    assert read(("ignored", "2"), 1) == Point(1, 2, "p")


def test_what_a_reader_returns_is_frozen():
    point = compile_reader(Point, ("x", "y", "name"))((1, 2, "p"))
    assert type(point) is Point
    with pytest.raises(FrozenInstanceError):
        point.x = 3


@pytest.mark.parametrize("columns", [("x", "y"), ("x", "y", "name", "z"), ("x", "x", "y", "name")])
def test_a_reader_needs_every_field_exactly_once(columns):
    with pytest.raises(ValueError, match="each field of Point once"):
        compile_reader(Point, columns)


def test_a_packer_returns_the_arguments_and_then_the_fields():
    assert compile_packer(("name", "x"), arguments=("space",))(Point(1, 2, "p"), "main") == ("main", "p", 1)


def test_a_constructor_takes_the_arguments_of_the_class():
    make = compile_constructor(Note)
    assert make(text="a") == Note(text="a")
    assert make(text="a", pages=[1], size=2) == Note(text="a", pages=[1], size=2)
    assert type(make(text="a")) is Note
    assert make(text="a").pages is not make(text="a").pages
    for wrong in ({}, {"text": "a", "other": 1}):
        with pytest.raises(TypeError):
            make(**wrong)
