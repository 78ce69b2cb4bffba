"""Real servers for tests, benchmarks and soaks, started from installed packages on a free port."""
