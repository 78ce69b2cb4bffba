"""The HTTP service of the shop: ``uvicorn orders.web:api``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from holdfast.observability.prometheus import PrometheusMetrics
from orders import sandbox
from orders.jobs import app, cancel_unpaid, charge, count_sold, settings
from orders.messages import Charge, Item, NewOrder, OrderRef, OrderView
from orders.tables import Order, open_engine

PRICE_CENTS = 1250

metrics = app.metrics = PrometheusMetrics()  # counts what this process enqueues; a worker has its own


@asynccontextmanager
async def lifespan(api: FastAPI) -> AsyncGenerator[None]:
    """Open the store and the database before the first request, and close them after the last."""
    await asyncio.to_thread(lambda: app.driver)
    engine = open_engine(app)
    api.state.sessions = sessionmaker(engine)
    yield
    engine.dispose()
    app.close()


api = FastAPI(title="Orders", lifespan=lifespan)
api.mount("/sandbox", sandbox.api)  # stands in for a payment provider


def open_session(request: Request) -> Iterator[Session]:
    """A session for one request."""
    with request.app.state.sessions() as session:
        yield session


Database = Annotated[Session, Depends(open_session)]


@api.post("/orders", status_code=201)
def place_order(order: NewOrder, session: Database, response: Response) -> OrderView:
    """Store an order and its jobs in one transaction: if the service dies before the commit, there is neither."""
    row = Order(id=str(order.id), item=order.item, quantity=order.quantity, email=order.email)
    try:
        with session.begin():
            session.add(row)
            session.flush()
            charge.enqueue(Charge(order_id=row.id, cents=order.quantity * PRICE_CENTS), connection=session)
            cancel_unpaid.enqueue(OrderRef(order_id=row.id), delay=settings.payment_time, connection=session)
    except IntegrityError:  # the id is known: the client has not seen our first answer
        response.status_code = 200
    # After the commit: a count that is queued already has not begun, and will see the order. The domain lets the counts
    # of an item run one after the other.
    count_sold.enqueue(Item(item=order.item), domain=order.item)
    return read_order(str(order.id), session)


@api.get("/orders/{order_id}")
def read_order(order_id: str, session: Database) -> OrderView:
    """Show an order."""
    row = session.get(Order, order_id)
    if row is None:
        raise HTTPException(404, "no such order")
    return OrderView(id=row.id, item=row.item, quantity=row.quantity, status=row.status)


@api.get("/healthz")
def is_alive() -> str:
    """Answer as long as the process can answer."""
    return "ok"


@api.get("/readyz")
def is_ready(session: Database) -> str:
    """Answer if the database answers."""
    session.execute(text("SELECT 1"))
    return "ok"


@api.get("/metrics")
def show_metrics(request: Request) -> Response:
    """Show the metrics of this process to Prometheus."""
    body, content_type = metrics.exposition(request.headers.get("accept", ""))
    return Response(body, media_type=content_type)
