"""Connections of the HTTP driver to a service that dies while it answers."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from holdfast.drivers.http.connections import Connections
from holdfast.drivers.http.url import read_address
from holdfast.errors import StoreUnavailable

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n"


@pytest.fixture
def connections():
    """Connections to a service whose first answer is cut off."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            # A test that needs no second answer ends while this thread still waits for its request.
            with suppress(OSError):
                for body in (b"01234", b"0123456789"):
                    connection, _ = server.accept()
                    with connection:
                        connection.recv(65_536)
                        connection.sendall(HEAD + body)

        thread = threading.Thread(target=serve)
        thread.start()
        opened = Connections(read_address(urlsplit(f"http://127.0.0.1:{server.getsockname()[1]}?patience=30")))
        yield opened
        opened.close()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def ask(connections, *, is_repeatable):
    return connections.request("GET", "/", headers={}, timeout=30.0, is_repeatable=is_repeatable)


def test_an_answer_that_is_cut_off_is_a_lost_answer(connections):
    assert ask(connections, is_repeatable=True).body == b"0123456789"


def test_a_call_that_must_not_be_repeated_fails_with_an_answer_that_is_cut_off(connections):
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        ask(connections, is_repeatable=False)
