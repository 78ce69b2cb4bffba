"""The jobs of this service. Run them with: holdfast work jobs:app"""

from datetime import timedelta

from holdfast import Holdfast
from pydantic import BaseModel

app = Holdfast()  # the store is url in holdfast.toml, or HOLDFAST_URL


class Mail(BaseModel):
    """The payload of a job, and the body of a request."""

    to: str
    text: str = "Welcome."


class Receipt(BaseModel):
    """The result of a job."""

    characters: int


@app.handler("mail.send", queue="mail", max_attempts=5, timeout=timedelta(seconds=30))
async def send(mail: Mail) -> Receipt:
    """Runs once per job, on the event loop of a child process. Send the mail here."""
    if "@" not in mail.to:
        raise ValueError(f"not an address: {mail.to}")  # tried again, then a dead letter
    return Receipt(characters=len(mail.text))
