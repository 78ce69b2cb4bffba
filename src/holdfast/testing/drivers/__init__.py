"""For driver authors: the conformance suite, its harness, an oracle, a state machine, a simulation, faulty drivers."""
