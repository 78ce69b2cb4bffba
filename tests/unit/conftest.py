"""Unit tests share their machine with others: how long an example takes says nothing about the code."""

from hypothesis import settings

settings.register_profile("holdfast", deadline=None)
settings.load_profile("holdfast")
