"""The jobs of the shop. A worker runs them: ``holdfast work orders.jobs:app``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta

import httpx
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from holdfast import Context, Holdfast
from holdfast.retry import Exponential
from orders.messages import Charge, Item, OrderRef, Receipt
from orders.settings import Settings
from orders.tables import Order, Payment, Sold, open_engine

QUEUE = "orders"

app = Holdfast()  # the store is that of holdfast.toml or HOLDFAST_URL
settings = Settings()


@app.resource
def sessions() -> Iterator[sessionmaker[Session]]:
    """Sessions of the database, one pool in each process of a worker."""
    engine = open_engine(app)
    yield sessionmaker(engine)
    engine.dispose()


def transaction(ctx: Context) -> AbstractContextManager[Session]:
    """Return a session that commits at the end of its block."""
    factory: sessionmaker[Session] = ctx.resources["sessions"]
    return factory.begin()


@app.resource
async def payments() -> AsyncIterator[httpx.AsyncClient]:
    """Connections to the payment provider, on the event loop of the async handlers."""
    async with httpx.AsyncClient(base_url=settings.payments_url, timeout=10) as client:
        yield client


@app.handler("order.charge", queue=QUEUE, timeout=timedelta(seconds=30), retry=Exponential(timedelta(seconds=1)))
async def charge(payload: Charge, ctx: Context) -> Receipt | None:
    """Charge an order, unless it was cancelled. A second attempt charges nothing: the provider knows the key."""
    if not await asyncio.to_thread(begin_payment, ctx, payload):
        return None
    payments = await ctx.resources.aget("payments")
    answer = await payments.post("/charges", json=payload.model_dump(), headers={"Idempotency-Key": payload.order_id})
    answer.raise_for_status()
    receipt = Receipt.model_validate(answer.json())
    await asyncio.to_thread(record_payment, ctx, payload, receipt)
    return receipt


def begin_payment(ctx: Context, charge: Charge) -> bool:
    """Mark the order as being paid, so that it is not cancelled any more. Return False if it was cancelled."""
    with transaction(ctx) as session:
        change_status(session, charge.order_id, "new", "paying")
        return session.scalar(select(Order.status).where(Order.id == charge.order_id)) != "cancelled"


def record_payment(ctx: Context, charge: Charge, receipt: Receipt) -> None:
    """Mark the order as paid and enqueue the next job, in one transaction; an earlier attempt may have done it."""
    with transaction(ctx) as session:
        if change_status(session, charge.order_id, "paying", "paid"):
            session.add(
                Payment(
                    order_id=charge.order_id,
                    receipt_id=receipt.id,
                    cents=receipt.cents,
                    job_id=ctx.job.id,
                    fence=ctx.fence,
                )
            )
            confirm.enqueue(OrderRef(order_id=charge.order_id), connection=session)


@app.handler("order.confirm", queue=QUEUE)
def confirm(payload: OrderRef, ctx: Context) -> None:
    """Tell the customer that the order is paid. A real shop sends a mail here."""
    with transaction(ctx) as session:
        if change_status(session, payload.order_id, "paid", "confirmed"):
            ctx.log.info("order %s is confirmed", payload.order_id)


@app.handler("order.cancel_unpaid", queue=QUEUE)
def cancel_unpaid(payload: OrderRef, ctx: Context) -> None:
    """Cancel an order that is still not paid. Enqueued together with the order, to run later."""
    with transaction(ctx) as session:
        change_status(session, payload.order_id, "new", "cancelled")


def change_status(session: Session, order_id: str, old: str, new: str) -> bool:
    """Change the status of an order if it has the old one: of attempts that meet, one changes it."""
    changed = session.execute(
        update(Order).where(Order.id == order_id, Order.status == old).values(status=new).returning(Order.id)
    )
    return changed.first() is not None


@app.handler("stock.count", queue=QUEUE, unique="while_queued")
def count_sold(payload: Item, ctx: Context) -> int:
    """Count the sold pieces of an item. Many orders need one count: there is at most one job per item in the queue."""
    with transaction(ctx) as session:
        orders = select(func.sum(Order.quantity)).where(Order.item == payload.item, Order.status != "cancelled")
        quantity = session.scalar(orders) or 0
        session.merge(Sold(item=payload.item, quantity=quantity))
    return quantity
