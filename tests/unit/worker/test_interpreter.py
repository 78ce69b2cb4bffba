import gc
import sys
import threading

import pytest

from holdfast.worker.interpreter import LONG_TURN, RARELY, old_values_left_alone, rarely_disturbed


@pytest.fixture(autouse=True)
def _as_before():
    before, turn = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(turn)
    gc.unfreeze()


def test_old_values_are_left_alone_for_as_long_as_a_worker_runs():
    with old_values_left_alone():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_what_the_app_has_frozen_itself_stays_so():
    gc.freeze()
    with old_values_left_alone():
        pass
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize(("before", "then"), [(700, RARELY), (2 * RARELY, 2 * RARELY), (0, 0)])
def test_garbage_is_looked_for_rarely_and_never_if_it_was_never(before, then):
    gc.set_threshold(before, 11, 12)
    with rarely_disturbed():
        assert gc.get_threshold() == (then, 11, 12)
    assert gc.get_threshold() == (before, 11, 12)


@pytest.mark.parametrize(("before", "then"), [(0.005, LONG_TURN), (2 * LONG_TURN, 2 * LONG_TURN)])
def test_threads_take_long_turns_and_not_shorter_ones_than_before(before, then):
    sys.setswitchinterval(before)
    with rarely_disturbed():
        assert sys.getswitchinterval() == pytest.approx(then)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_worker_in_a_thread_leaves_the_process_as_it_is():
    seen = []

    def work():
        with rarely_disturbed():
            seen.append((gc.get_threshold(), sys.getswitchinterval()))

    before = gc.get_threshold(), sys.getswitchinterval()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
