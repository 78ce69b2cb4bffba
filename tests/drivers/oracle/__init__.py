"""A small model of the contract, slow and simple on purpose. Drivers are compared with it, call by call.

The oracle shares no decision with any driver: every rule is written again from the laws, and every call looks at all
jobs. It models one space and takes an explicit ``now``. It does not model validation.
"""

from tests.drivers.oracle.oracle import Oracle
from tests.drivers.oracle.state import OracleJob

__all__ = ["Oracle", "OracleJob"]
