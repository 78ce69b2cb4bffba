"""Values and decisions: pure functions and immutable data, standard library only."""
