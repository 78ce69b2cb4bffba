"""Tickets: the right to begin a run, in a pipe from which both the worker and one child read.

The worker writes the ticket of each run before it sends the run. The child begins a run only after it has read its
ticket. The worker withdraws the runs that have not begun by reading the tickets that are left. The kernel gives each
ticket to one reader, so a run is begun or withdrawn, never both. The child need not help: it may be stopped at any
instruction, or in a call that checks no signal. A lock in shared memory would not do, because a stopped process keeps
the lock that it holds.

Neither end of the pipe ever waits. A handler could read tickets, too: a constant in each shows that the rest is a
ticket and not a part of two, and the worker takes back a run whose ticket the child did not find.
"""

from __future__ import annotations

import contextlib
import os
import select
import struct
import sys
from collections.abc import Sequence

from holdfast.worker.processes.protocol import ProtocolError

_TICKET_BYTES = 8
_NUMBER_BITS = 48
_CONSTANT = 0x6866 << _NUMBER_BITS
_WRITE_TICKETS = select.PIPE_BUF // _TICKET_BYTES  # the kernel writes so many at once, or none
_READ_BYTES = 1 << 16


class IssuedTickets:
    """The worker's ends of the pipe."""

    def __init__(self, read_end: int, write_end: int) -> None:
        self._read_end = read_end
        self._write_end = write_end

    def issue(self, numbers: Sequence[int]) -> int:
        """Write the tickets of these runs, in the order in which the runs will be sent; return how many fit."""
        tickets = [_CONSTANT | number for number in numbers]
        issued = 0
        with contextlib.suppress(BlockingIOError):
            while issued < len(tickets):
                some = tickets[issued : issued + _WRITE_TICKETS]
                os.write(self._write_end, struct.pack(f"={len(some)}Q", *some))
                issued += len(some)
        return issued

    def withdraw(self) -> list[int]:
        """Return the numbers of the runs that the child has not begun and will not begin."""
        numbers: list[int] = []
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._read_end, _READ_BYTES):
                parts = (data[start : start + _TICKET_BYTES] for start in range(0, len(data), _TICKET_BYTES))
                numbers += [_read_ticket(part) ^ _CONSTANT for part in parts]
        return numbers

    def close(self) -> None:
        """Close both ends."""
        os.close(self._read_end)
        os.close(self._write_end)


class Tickets:
    """The child's end of the pipe. One thread at a time claims, in the order in which the runs have arrived."""

    def __init__(self, read_end: int) -> None:
        self._read_end = read_end
        self._latest = -1  # the ticket that was read last

    def claim(self, number: int) -> bool:
        """Whether this run may begin: its ticket was not withdrawn, and the worker is alive. Ask once for each run."""
        wanted = _CONSTANT | number
        try:
            while self._latest < wanted:  # those before it belong to runs that were never received
                data = os.read(self._read_end, _TICKET_BYTES)
                if not data:
                    return False
                self._latest = _read_ticket(data)
        except BlockingIOError:
            return False
        return self._latest == wanted


def _read_ticket(data: bytes) -> int:
    ticket = int.from_bytes(data, sys.byteorder)
    if ticket >> _NUMBER_BITS != _CONSTANT >> _NUMBER_BITS:
        raise ProtocolError(f"wanted a ticket, got {data!r}: a handler has read from the pipe")
    return ticket
