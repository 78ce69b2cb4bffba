import gc
import sys
import threading

import pytest

from holdfast.worker.interpreter import (
    GC_THRESHOLD_OBJECTS,
    SWITCH_INTERVAL_SECONDS,
    gc_frozen,
    tuned_interpreter,
)


@pytest.fixture(autouse=True)
def _restore_interpreter():
    thresholds, switch_interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switch_interval)
    gc.unfreeze()


def test_existing_objects_are_excluded_from_garbage_collection_while_a_worker_runs():
    with gc_frozen():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_objects_that_the_app_has_frozen_stay_frozen():
    gc.freeze()
    with gc_frozen():
        pass
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize(
    ("before", "expected"), [(700, GC_THRESHOLD_OBJECTS), (2 * GC_THRESHOLD_OBJECTS, 2 * GC_THRESHOLD_OBJECTS), (0, 0)]
)
def test_garbage_is_collected_rarely_and_never_if_collection_was_off(before, expected):
    gc.set_threshold(before, 11, 12)
    with tuned_interpreter():
        assert gc.get_threshold() == (expected, 11, 12)
    assert gc.get_threshold() == (before, 11, 12)


@pytest.mark.parametrize(
    ("before", "expected"),
    [(0.005, SWITCH_INTERVAL_SECONDS), (2 * SWITCH_INTERVAL_SECONDS, 2 * SWITCH_INTERVAL_SECONDS)],
)
def test_threads_switch_rarely_and_not_more_often_than_before(before, expected):
    sys.setswitchinterval(before)
    with tuned_interpreter():
        assert sys.getswitchinterval() == pytest.approx(expected)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_worker_outside_of_the_main_thread_changes_no_setting():
    seen = []

    def work():
        with tuned_interpreter():
            seen.append((gc.get_threshold(), sys.getswitchinterval()))

    before = gc.get_threshold(), sys.getswitchinterval()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
