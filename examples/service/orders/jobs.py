"""The jobs of the shop. A worker runs them: ``holdfast work orders.jobs:app``."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import httpx
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from holdfast import Context, Exponential, Holdfast
from orders.messages import Charge, Item, OrderRef, Receipt
from orders.settings import Settings
from orders.tables import Order, Payment, Sold, driver_connection, open_engine

QUEUE = "orders"

app = Holdfast()  # the store is that of holdfast.toml or HOLDFAST_URL
settings = Settings()


@app.resource
def sessions() -> sessionmaker[Session]:
    """Sessions of the database, one pool in each process of a worker."""
    return sessionmaker(open_engine(app))


@app.handler("order.charge", queue=QUEUE, timeout=timedelta(seconds=30), retry=Exponential(timedelta(seconds=1)))
async def charge(payload: Charge, ctx: Context) -> Receipt:
    """Charge an order. A second attempt charges nothing: the provider knows the key, and the order is paid once."""
    async with httpx.AsyncClient(base_url=settings.payments_url, timeout=10) as payments:
        answer = await payments.post(
            "/charges", json=payload.model_dump(), headers={"Idempotency-Key": payload.order_id}
        )
    answer.raise_for_status()
    receipt = Receipt.model_validate(answer.json())
    await asyncio.to_thread(record_payment, ctx, payload, receipt)
    return receipt


def record_payment(ctx: Context, charge: Charge, receipt: Receipt) -> None:
    """Mark the order as paid and enqueue the next job, in one transaction; do nothing if that has happened."""
    with ctx.resources["sessions"].begin() as session:
        paid = session.execute(
            update(Order).where(Order.id == charge.order_id, Order.status == "new").values(status="paid")
        )
        if paid.rowcount == 0:
            ctx.log.info("order %s was paid or cancelled before", charge.order_id)
            return
        session.add(
            Payment(
                order_id=charge.order_id,
                receipt_id=receipt.id,
                cents=receipt.cents,
                job_id=ctx.job.id,
                fence=ctx.fence,
            )
        )
        confirm.enqueue(OrderRef(order_id=charge.order_id), connection=driver_connection(session))


@app.handler("order.confirm", queue=QUEUE)
def confirm(payload: OrderRef, ctx: Context) -> None:
    """Tell the customer that the order is paid. A real shop sends a mail here."""
    with ctx.resources["sessions"].begin() as session:
        email = session.scalar(
            update(Order)
            .where(Order.id == payload.order_id, Order.status == "paid")
            .values(status="confirmed")
            .returning(Order.email)
        )
    ctx.log.info("order %s is confirmed to %s", payload.order_id, email)


@app.handler("order.cancel_unpaid", queue=QUEUE)
def cancel_unpaid(payload: OrderRef, ctx: Context) -> None:
    """Cancel an order that is still not paid. Enqueued together with the order, to run later."""
    with ctx.resources["sessions"].begin() as session:
        session.execute(
            update(Order).where(Order.id == payload.order_id, Order.status == "new").values(status="cancelled")
        )


@app.handler("stock.count", queue=QUEUE)
def count_sold(payload: Item, ctx: Context) -> int:
    """Count the sold pieces of an item. Many orders at once need one count: the job is unique while it is queued."""
    with ctx.resources["sessions"].begin() as session:
        quantity = session.scalar(
            select(func.coalesce(func.sum(Order.quantity), 0)).where(
                Order.item == payload.item, Order.status != "cancelled"
            )
        )
        session.merge(Sold(item=payload.item, quantity=quantity))
    return int(quantity)
