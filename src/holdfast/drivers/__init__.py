"""Stores behind one contract. Read ``contract.py`` first, then ``memory/``."""
