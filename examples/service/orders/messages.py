"""What goes over the wire: bodies of requests and responses, payloads and results of jobs."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID, uuid4

from pydantic import BaseModel, Field

Cents = Annotated[int, Field(gt=0)]


class NewOrder(BaseModel):
    """The body of ``POST /orders``. A client that repeats a request sends the same id, and gets one order."""

    id: UUID = Field(default_factory=uuid4)
    item: Annotated[str, Field(min_length=1, max_length=100)]
    quantity: Annotated[int, Field(gt=0, le=100)] = 1
    email: Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$", max_length=200)]


class OrderView(BaseModel):
    """An order as the service shows it."""

    id: str
    item: str
    quantity: int
    status: str


class Charge(BaseModel):
    """The payload of ``order.charge``, and the body of a request to the payment provider."""

    order_id: str
    cents: Cents


class Receipt(BaseModel):
    """The answer of the payment provider, and the result of ``order.charge``."""

    id: str
    cents: Cents


class OrderRef(BaseModel):
    """The payload of the jobs that need nothing but the order."""

    order_id: str


class Item(BaseModel):
    """The payload of ``stock.count``."""

    item: str
