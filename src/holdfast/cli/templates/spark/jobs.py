"""The jobs of this pipeline. Run them on Spark with: holdfast spark work jobs:app"""

from dataclasses import dataclass

from holdfast import Holdfast, Unrecoverable

app = Holdfast()  # the store is url in holdfast.toml, or HOLDFAST_URL


@dataclass
class Order:
    """The payload of a job: the columns of a row."""

    id: int
    quantity: int


@app.handler("order.price", queue="orders", max_attempts=3)
def price(order: Order) -> int:
    """Runs once per row, on an executor. Returns cents."""
    if order.quantity < 1:
        raise Unrecoverable("an order without items")  # a dead letter; the other rows go on
    return order.quantity * 1250
