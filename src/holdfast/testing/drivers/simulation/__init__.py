"""A simulation of producers, workers and operators that fail in every way, repeatable from a seed.

``python -m holdfast.testing.drivers.simulation --seeds 2000`` runs many; ``--seed 17 --trace`` tells the story of one.
"""

from holdfast.testing.drivers.simulation.checker import Violation
from holdfast.testing.drivers.simulation.run import Report, simulate

__all__ = ["Report", "Violation", "simulate"]
