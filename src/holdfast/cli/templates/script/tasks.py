"""The jobs of this project. Run them with: holdfast work tasks:app"""

from dataclasses import dataclass

from holdfast import Holdfast

app = Holdfast()  # the store is url in holdfast.toml, or HOLDFAST_URL


@dataclass
class Greeting:
    """The payload of a job."""

    name: str


@app.handler("hello", max_attempts=3)
def hello(greeting: Greeting) -> str:
    """Runs once per job. The return value is stored as the job's result."""
    return f"Hello, {greeting.name}!"


if __name__ == "__main__":
    job = hello.enqueue(Greeting(name="Ada"))
    print(f"job {job.id} is waiting; run it with: holdfast work tasks:app --until-drained")
