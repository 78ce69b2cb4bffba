"""Values of annotated types to JSON and back, by msgspec and by pydantic."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest

from holdfast.errors import InvalidInput, PayloadError
from holdfast.wire.codec import JSON, dump_model
from holdfast.wire.value_type import ValueType, type_name

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ID = UUID(int=7)


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    id: UUID
    price: Decimal
    at: datetime
    colour: Colour = Colour.RED
    tags: list[str] = field(default_factory=list)


class Parcel(msgspec.Struct, rename="camel"):
    net_weight: float
    within: timedelta | None = None


class Address(TypedDict):
    street: str
    number: int


class Point(NamedTuple):
    x: int
    y: int


class Mail(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    to: str = pydantic.Field(alias="To")
    at: datetime = NOON

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def domain(self) -> str:
        return self.to.partition("@")[2]


class Note(pydantic.BaseModel):
    text: str


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    at: datetime
    id: UUID
    tags: set[str]


@pydantic.dataclasses.dataclass
class Checked:
    number: int


@dataclass
class Envelope:
    mail: Mail
    copies: list[Mail]


@dataclass
class Either:
    one: Mail | Note


ORDER = Order(id=ID, price=Decimal("1.10"), at=NOON)
ORDER_JSON = {
    "id": str(ID),
    "price": "1.10",
    "at": "2030-01-01T12:00:00Z",
    "colour": "red",
    "tags": [],
}
MAIL = Mail(To="ada@x")
MAIL_JSON = {"To": "ada@x", "at": "2030-01-01T12:00:00Z"}
VALUES: list[tuple[Any, object, object]] = [
    (Order, ORDER, ORDER_JSON),
    (list[Order], [ORDER], [ORDER_JSON]),
    (Order | None, ORDER, ORDER_JSON),
    (Order | None, None, None),
    (dict[str, Order], {"a": ORDER}, {"a": ORDER_JSON}),
    (dict[int, str], {1: "one"}, {"1": "one"}),
    (Parcel, Parcel(1.5, timedelta(minutes=1)), {"netWeight": 1.5, "within": "PT60S"}),
    (Address, {"street": "Main", "number": 1}, {"street": "Main", "number": 1}),
    (list[Point], [Point(1, 2)], [[1, 2]]),
    (Colour, Colour.RED, "red"),
    (Literal["a", "b"], "a", "a"),
    (datetime, NOON, "2030-01-01T12:00:00Z"),
    (UUID, ID, str(ID)),
    (Decimal, Decimal("0.10"), "0.10"),
    (set[int], {1}, [1]),
    (str, "text", "text"),
    (float, 1.0, 1.0),
    (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
    (Mail, MAIL, MAIL_JSON),
    (list[Mail], [MAIL], [MAIL_JSON]),
    (Mail | None, MAIL, MAIL_JSON),
    (Mail | None, None, None),
    (Mail | Note, Note(text="a"), {"text": "a"}),
    (dict[str, Mail], {"a": MAIL}, {"a": MAIL_JSON}),
    (Annotated[int, pydantic.Field(gt=0)], 1, 1),
    (Checked, Checked(3), {"number": 3}),
    (Envelope, Envelope(MAIL, [MAIL]), {"mail": MAIL_JSON, "copies": [MAIL_JSON]}),
    (Either, Either(MAIL), {"one": MAIL_JSON}),
    (
        Strict,
        Strict(at=NOON, id=ID, tags={"a"}),
        {"at": "2030-01-01T12:00:00Z", "id": str(ID), "tags": ["a"]},
    ),
]


@pytest.mark.parametrize(("annotation", "value", "as_json"), VALUES, ids=[type_name(one) for one, *_ in VALUES])
def test_a_value_and_its_json_become_the_same_json_and_the_same_value(annotation, value, as_json):
    type_ = pickle.loads(pickle.dumps(ValueType(annotation))) if type_is_pickled(annotation) else ValueType(annotation)
    for given in (value, as_json):
        stored = JSON.decode(JSON.encode(type_.encode(given)))
        assert stored == as_json
    read = type_.decode(stored)
    assert read == value
    assert type(read) is type(value)


def type_is_pickled(annotation: object) -> bool:
    return "Annotated" not in str(annotation)  # a Field of pydantic cannot be pickled


@dataclass(frozen=True)
class Line:
    text: str
    count: int = 1


@dataclass(slots=True)
class Page:
    lines: list[Line]
    by_name: dict[str, Line] = field(default_factory=dict)
    number: int = 1


class Book(msgspec.Struct):
    page: Page
    title: str = ""


def test_a_json_value_gets_the_defaults_of_its_type_at_any_depth():
    given = {"page": {"lines": [{"text": "a"}], "by_name": {"b": {"text": "b"}}}}
    book = Book(Page([Line("a")], {"b": Line("b")}))
    assert ValueType(Book).encode(given) == ValueType(Book).encode(book)
    assert ValueType(Book).encode(given)["page"]["lines"] == [{"text": "a", "count": 1}]


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Order, Parcel(1), "payload: wanted Order, got Expected `object`, got `Parcel`"),
        (Order, {**ORDER_JSON, "at": 1j}, "wanted Order, got Expected `datetime`, got `complex`"),
        (Order, Order(id=ID, price=Decimal(1), at="soon"), r"wanted Order, got Invalid RFC3339 .* at `\$.at`"),
        (Parcel, Parcel("heavy"), "wanted Parcel, got Expected `float`, got `str`"),
        (list[Order], [ORDER, 1], r"wanted list\[Order\], got Expected `object`, got `int` - at `\$\[1\]`"),
        (Order | None, "text", r"wanted Order \| None, got Expected `object | null`, got `str`"),
        (Address, {"street": "Main"}, "wanted Address, got Object missing required field `number`"),
        (str, 5, "wanted str, got Expected `str`, got `int`"),
        (Mail, ORDER, "wanted Mail, got Input should be a valid dictionary or instance of Mail, not Order$"),
        (Mail, {}, "wanted Mail, got To: Field required"),
        (Mail, Mail.model_construct(to=5), "wanted Mail, got To: Input should be a valid string, not int$"),
        (list[Mail], [MAIL, {"To": 1, "x": 2}], r"wanted list\[Mail\], got 1.To: Input .* 1.x: Extra inputs"),
        (dict[str, Mail], [], r"wanted dict\[str, Mail\], got Input should be a valid dictionary"),
        (Envelope, {"mail": {}, "copies": []}, r"wanted Envelope, got To: Field required - at `\$.mail`"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_place(annotation, value, message):
    with pytest.raises(PayloadError, match=message):
        ValueType(annotation).encode(value)


def test_a_mismatch_does_not_show_the_value():
    with pytest.raises(PayloadError) as caught:
        ValueType(Mail).decode({"To": ["hunter2"]}, field="result")
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("result: wanted Mail")


def test_many_mismatches_are_counted():
    with pytest.raises(PayloadError, match="; and 17 more"):
        ValueType(list[Mail]).decode([{}] * 20)


class Opaque:
    """A class that neither msgspec nor pydantic can read."""


@pytest.mark.parametrize("annotation", ["Unknown", Mail | Opaque])
def test_an_annotation_that_nothing_can_read_is_refused(annotation):
    with pytest.raises(InvalidInput, match="wanted an annotation that msgspec or pydantic can read"):
        ValueType(annotation).decode({})


def test_pydantic_is_not_imported_for_other_types():
    code = (
        "import sys\n"
        "from dataclasses import dataclass\n"
        "from holdfast.wire.value_type import ValueType\n"
        "@dataclass\n"
        "class A:\n"
        "    x: int\n"
        "assert ValueType(list[A]).encode([A(1)]) == [{'x': 1}]\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Revealed(Login):
    @pydantic.field_serializer("password", when_used="json")
    def reveal(self, password: pydantic.SecretStr) -> str:
        return password.get_secret_value()


@dataclass
class Account:
    login: Login


LOGIN = Login(user="ada", password=pydantic.SecretStr("open sesame"))


@pytest.mark.parametrize(
    "encode",
    [
        lambda: ValueType(Login).encode(LOGIN),
        lambda: ValueType(list[Login]).encode([LOGIN]),
        lambda: ValueType(Account).encode(Account(LOGIN)),
        lambda: ValueType(Login).encode({"user": "ada", "password": "open sesame"}),
        lambda: dump_model(LOGIN),
        lambda: JSON.encode({"login": LOGIN}),
    ],
)
def test_a_secret_that_pydantic_would_mask_is_refused(encode):
    with pytest.raises(PayloadError, match="a SecretStr, which pydantic writes as stars") as refused:
        encode()
    assert "sesame" not in str(refused.value)


def test_stars_and_a_secret_with_a_serializer_are_values_like_others():
    revealed = Revealed(user="**********", password=pydantic.SecretStr("open sesame"))
    value = ValueType(Revealed).encode(revealed)
    assert value == {"user": "**********", "password": "open sesame"}
    assert ValueType(Revealed).decode(value) == revealed
    empty = Login(user="ada", password=pydantic.SecretStr(""))
    assert ValueType(Login).decode(ValueType(Login).encode(empty)) == empty
