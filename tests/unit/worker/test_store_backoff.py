"""The pauses of a worker whose store fails."""

from holdfast.worker.store_backoff import FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, StoreBackoff


def test_pauses_double_up_to_the_longest_and_begin_again_after_an_answer():
    backoff = StoreBackoff(jitter=lambda: 1.0)
    pauses = [backoff.failed() for _ in range(2000)]
    assert pauses[:4] == [FIRST_PAUSE_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert set(pauses[5:]) == {MAX_PAUSE_SECONDS}
    backoff.answered()
    assert backoff.failed() == FIRST_PAUSE_SECONDS


def test_workers_do_not_come_back_at_the_same_moment():
    pauses = {StoreBackoff().failed() for _ in range(20)}
    assert len(pauses) > 10
    assert all(FIRST_PAUSE_SECONDS / 2 <= pause <= FIRST_PAUSE_SECONDS for pause in pauses)
