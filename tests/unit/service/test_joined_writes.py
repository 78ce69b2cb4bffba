"""The parts of an answer leave together, in order, and none is lost at the end of a connection."""

from __future__ import annotations

import asyncio

from holdfast.service.http.joined_writes import MAX_JOINED_BYTES, JoinedWrites


class Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def write(self, data) -> None:
        self.calls.append(bytes(data))

    def close(self) -> None:
        self.calls.append(b"closed")


def test_writes_of_one_turn_are_one_call_and_those_of_the_next_another():
    async def run() -> list[bytes]:
        recorder = Recorder()
        joined = JoinedWrites(recorder, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"body")
        assert recorder.calls == []
        await asyncio.sleep(0)
        joined.write(b"next")
        await asyncio.sleep(0)
        return recorder.calls

    assert asyncio.run(run()) == [b"headbody", b"next"]


def test_a_large_part_follows_what_was_written_before_and_is_not_kept():
    async def run() -> list[bytes]:
        recorder = Recorder()
        joined = JoinedWrites(recorder, asyncio.get_running_loop())
        joined.write(b"head")
        joined.write(b"x" * (MAX_JOINED_BYTES + 1))
        calls = list(recorder.calls)
        joined.write(b"tail")
        joined.close()
        await asyncio.sleep(0)
        assert recorder.calls[2:] == [b"tail", b"closed"]
        return calls

    assert [len(call) for call in asyncio.run(run())] == [4, MAX_JOINED_BYTES + 1]
