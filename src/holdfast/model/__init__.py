"""Nouns and decisions: pure values and functions, standard library only."""
