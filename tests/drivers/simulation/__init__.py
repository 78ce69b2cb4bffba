"""A seeded simulation of producers, workers and operators that fail in many ways. The same seed produces the same run.

``python -m tests.drivers.simulation --seeds 2000`` runs many seeds; ``--seed 17 --trace`` prints every event
of one seed.
"""

from tests.drivers.simulation.checker import Violation
from tests.drivers.simulation.run import SimulationReport, simulate

__all__ = ["SimulationReport", "Violation", "simulate"]
