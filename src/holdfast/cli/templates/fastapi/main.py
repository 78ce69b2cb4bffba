"""The web service. Run it with: uvicorn main:web"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

from jobs import Mail, Receipt, app, send


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Close the store when the service stops. It is opened by the first request."""
    yield
    app.close()


web = FastAPI(lifespan=lifespan)


@web.post("/mails", status_code=202)
async def create_mail(mail: Mail) -> dict[str, str]:
    """Store a job and answer at once; a worker sends the mail."""
    job = await send.aenqueue(mail)
    return {"id": job.id}


@web.get("/mails/{job_id}")
def read_mail(job_id: str) -> dict[str, str | Receipt | None]:
    """The state of a job, and its receipt once it is done. Not async, so FastAPI runs it in a thread."""
    job = app.client.get(job_id)
    if job is None:
        raise HTTPException(404, "no such mail")
    return {"state": job.state, "receipt": send.result(job) if job.state == "done" else None}
