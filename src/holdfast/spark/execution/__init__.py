"""Run jobs on executors: a DataFrame through a handler, or a queue drained by slots."""
