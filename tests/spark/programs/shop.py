"""An application that is not installed on executors: Spark ships it as a file."""

import os
import time

from holdfast.app import Holdfast
from holdfast.worker.control import Unrecoverable

app = Holdfast(os.environ.get("SHOP_URL", "memory://"))


@app.handler("ship", queue="orders", max_attempts=20)
def ship(order, ctx):
    time.sleep(0.04)
    if order % 50 == 7:
        raise Unrecoverable("no such address")
    if order % 50 == 11 and ctx.attempt == 1:
        raise ValueError("at first")
    return order


@app.handler("wait", queue="orders")
def wait(seconds):
    time.sleep(seconds)
