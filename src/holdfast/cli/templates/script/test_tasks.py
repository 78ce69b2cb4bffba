"""The jobs on a store in memory, with the fixtures of Holdfast. Run them with: pytest"""

from tasks import Greeting, hello


def test_the_handler_alone(run_job):
    assert run_job(hello, Greeting(name="Ada")) == "Hello, Ada!"


def test_an_enqueued_job_runs(holdfast_app, drain):
    job = hello.enqueue(Greeting(name="Ada"))
    assert drain() == {"acked": 1}
    assert hello.result(job) == "Hello, Ada!"
