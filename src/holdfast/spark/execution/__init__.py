"""Run jobs on executors: a DataFrame through a handler, or the jobs of queues."""
