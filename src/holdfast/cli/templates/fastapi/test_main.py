"""The service on a store in memory, with the fixtures of Holdfast. Run them with: pytest"""

import asyncio

import httpx

from jobs import Mail, send
from main import web


def request(method, path, **keywords):
    async def call():
        transport = httpx.ASGITransport(app=web)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **keywords)

    return asyncio.run(call())


def test_a_mail_is_enqueued_and_sent(holdfast_app, assert_enqueued, drain):
    created = request("POST", "/mails", json={"to": "ada@example.org"})
    assert created.status_code == 202
    assert_enqueued(send, payload=Mail(to="ada@example.org"), count=1)
    path = f"/mails/{created.json()['id']}"
    assert request("GET", path).json() == {"state": "ready", "receipt": None}
    assert drain() == {"acked": 1}
    assert request("GET", path).json() == {"state": "done", "receipt": {"characters": 8}}


def test_an_invalid_request_enqueues_nothing(holdfast_app, enqueued):
    assert request("POST", "/mails", json={"text": "to nobody"}).status_code == 422
    assert enqueued() == []
    assert request("GET", "/mails/unknown").status_code == 404
