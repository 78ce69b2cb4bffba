"""The names that ``holdfast.testing`` and ``holdfast.testing.drivers`` export."""

import subprocess
import sys

import pytest

from holdfast import testing
from holdfast.testing import drivers


@pytest.mark.parametrize("package", [testing, drivers], ids=lambda package: package.__name__)
def test_every_exported_name_can_be_imported(package):
    for name in package.__all__:
        assert getattr(package, name) is not None


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
        testing.unknown  # noqa: B018


def test_the_conformance_suite_works_without_hypothesis():
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from holdfast.testing.drivers import UrlHarness, cases, run_cases\n"
        "assert [next(iter(run_cases(UrlHarness('memory://'), cases()[:1]))).status] == ['pass']\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
