"""The names that ``holdfast.testing`` and ``holdfast.testing.drivers`` export."""

import subprocess
import sys

import pytest

from holdfast import testing
from holdfast.testing import drivers


@pytest.mark.parametrize("package", [testing, drivers], ids=lambda package: package.__name__)
def test_every_exported_name_can_be_imported(package):
    assert sorted(package._MODULES) == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None


@pytest.mark.parametrize("package", [testing, drivers], ids=lambda package: package.__name__)
def test_an_unknown_name_raises_an_attribute_error(package):
    with pytest.raises(AttributeError, match="has no attribute 'unknown'"):
        package.unknown  # noqa: B018


def test_the_state_machine_says_what_to_install_when_hypothesis_is_missing():
    program = "import sys; sys.modules['hypothesis'] = None; from holdfast.testing.drivers import run_state_machine"
    run = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert run.returncode == 1
    assert "needs the package hypothesis: pip install 'holdfast[testing]'" in run.stderr


def test_the_other_tools_work_without_hypothesis():
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "from holdfast.testing.drivers import FAULTY_DRIVERS, UrlHarness, cases, run_cases, simulate\n"
        "assert simulate(1).failure is None\n"
        "assert [next(iter(run_cases(UrlHarness('memory://'), cases()[:1]))).status] == ['pass']\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
