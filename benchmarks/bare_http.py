"""The other side of ``http_service``: Starlette and uvicorn, which parse the JSON and answer as the service does."""

from __future__ import annotations

import itertools
import secrets
import socket

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

numbers = itertools.count(1)
AT = "2026-01-01T00:00:00.000000Z"


def answer(content: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(content), status_code=status, media_type="application/json")


async def create(request: Request) -> Response:
    task = msgspec.json.decode(await request.body())
    assert task["command"]
    return answer({"taskId": secrets.token_hex(16), "status": "PENDING", "existed": False}, status=202)


async def claim(request: Request) -> Response:
    wanted = msgspec.json.decode(await request.body())
    number = next(numbers)
    task = {
        "id": secrets.token_hex(16),
        "command": wanted["commands"][0],
        "queue": "default",
        "status": "IN_PROGRESS",
        "payload": {"to": "ada@example.org", "subject": "Hello", "lines": ["one", "two", "three"]},
        "priority": 0,
        "attempts": 1,
        "maxAttempts": 25,
        "createdAt": AT,
    }
    token = f"{number}.{secrets.token_hex(16)}"
    lease = {"leaseToken": token, "fence": number, "leaseUntil": AT, "leaseSeconds": wanted["leaseSeconds"]}
    return answer({"task": task, **lease})


async def complete(request: Request) -> Response:
    ended = msgspec.json.decode(await request.body())
    return answer({"taskId": request.path_params["task_id"], "status": ended["status"]})


app = Starlette(
    routes=[
        Route("/v1/tasks", create, methods=["POST"]),
        Route("/v1/tasks/claim", claim, methods=["POST"]),
        Route("/v1/tasks/{task_id}/result", complete, methods=["POST"]),
    ]
)


def main() -> None:
    # The protocol is named, as in the service: else asyncio leaves Nagle's algorithm on, which costs 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(512)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, http="h11", ws="none", loop="asyncio", log_config=None, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
