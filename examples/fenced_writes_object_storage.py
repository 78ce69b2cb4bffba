"""Fence your own writes on object storage, with conditional puts: a paused attempt cannot replace a newer object.

The object store is a small one in this process (``_object_store.py``). A real one with conditional puts works alike:
S3 has ``If-Match`` and ``If-None-Match: *``, in boto3 ``put_object(..., IfMatch=etag)`` and ``IfNoneMatch="*"``.
"""

from __future__ import annotations

import json
import tempfile
from http.client import HTTPConnection

from _object_store import object_store

from holdfast import Client, JobRequest, connect
from holdfast.driver import MILLISECOND, SECOND, Reservation, Store, ack
from holdfast.fencing import StaleFence, Version, put_fenced

NOT_FOUND, PRECONDITION_FAILED = 404, 412


class Reports:
    """The objects of this program. Each contains the fence of the attempt that wrote it.

    In the object and not in its metadata: the ETag of S3 depends on the bytes alone. An object that is replaced by the
    same bytes with a larger fence would keep its ETag, and a stale put would still match.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def write(self, path: str, text: str, *, fence: int) -> None:
        """Replace an object. In a handler, ``fence`` is ``ctx.fence``. Raises ``StaleFence``."""

        def read() -> Version | None:
            status, etag, body = self._request("GET", path)
            return None if status == NOT_FOUND else Version(json.loads(body)["fence"], etag)

        def put(etag: str | None) -> bool:
            condition = {"If-None-Match": "*"} if etag is None else {"If-Match": etag}
            body = json.dumps({"fence": fence, "text": text})
            status, _, _ = self._request("PUT", path, body, condition)
            return status != PRECONDITION_FAILED

        put_fenced(read, put, path, fence=fence)

    def read(self, path: str) -> str:
        """Return the text of an object."""
        return str(json.loads(self._request("GET", path)[2])["text"])

    def _request(
        self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, str, str]:
        """Return the status, the ETag and the body of the answer."""
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request(method, path, body.encode(), headers or {})
            response = connection.getresponse()
            return response.status, response.getheader("ETag", ""), response.read().decode()
        finally:
            connection.close()


def reserve_one(store: Store, *, lease_for: int) -> Reservation:
    while not (reservations := store.reserve(["reports"], limit=1, lease_for=lease_for)):
        store.wait(["reports"], timeout=1)
    return reservations[0]


with (
    tempfile.TemporaryDirectory() as folder,
    connect(f"sqlite:///{folder}/jobs.db") as store,
    object_store() as port,
):
    reports = Reports(port)
    Client(store).enqueue(JobRequest(type="report.make", queue="reports", domain="report-7"))

    paused = reserve_one(store, lease_for=200 * MILLISECOND)
    reports.write("/reports/7", "draft", fence=paused.lease.fence)  # then its process is stopped, longer than its lease
    later = reserve_one(store, lease_for=30 * SECOND)
    reports.write("/reports/7", "final", fence=later.lease.fence)
    ack(store, later.lease)
    print(f"fence {paused.lease.fence} wrote the draft, then fence {later.lease.fence} the final report")

    try:
        reports.write("/reports/7", "draft, again", fence=paused.lease.fence)  # the paused process goes on
    except StaleFence as error:
        print(f"refused: {error}")
    else:
        raise AssertionError("a stale write was accepted")
    assert reports.read("/reports/7") == "final"
    print("the object is the final report")
