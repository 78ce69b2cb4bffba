"""A simulation of producers, workers and operators that fail in every way, repeatable from a seed.

``python -m holdfast.testing.simulation --seeds 2000`` runs many; ``--seed 17 --trace`` tells the story of one.
"""

from holdfast.testing.simulation.judge import Violation
from holdfast.testing.simulation.run import Report, simulate

__all__ = ["Report", "Violation", "simulate"]
