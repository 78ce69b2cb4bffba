"""A seeded simulation of producers, workers and operators that fail in many ways. The same seed produces the same run.

``python -m holdfast.testing.drivers.simulation --seeds 2000`` runs many seeds; ``--seed 17 --trace`` prints every event
of one seed.
"""

from holdfast.testing.drivers.simulation.checker import Violation
from holdfast.testing.drivers.simulation.run import SimulationReport, simulate

__all__ = ["SimulationReport", "Violation", "simulate"]
