"""What proves a driver: the conformance suite, its harness, and drivers that are wrong on purpose."""
