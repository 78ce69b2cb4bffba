"""A stand-in for a payment provider: it answers the same charge with the same receipt, as real ones do."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Header

from orders.messages import Charge, Receipt

api = FastAPI(title="Payments")


@api.post("/charges")
async def charge(body: Charge, idempotency_key: Annotated[str, Header()]) -> Receipt:
    """Charge once for each key."""
    return Receipt(id=f"ch_{idempotency_key}", cents=body.cents)
