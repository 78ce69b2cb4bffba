"""A store that does not answer is reported every ten seconds, until the loop has come round."""

from holdfast.worker.store_silence import StoreSilence

SILENCE_SECONDS = 10.0


def poll(silence, times):
    """Return the reports of polls that are a second apart."""
    return [report for _ in range(times) if (report := silence.poll(1.0)) is not None]


def test_a_silent_store_is_reported_again_and_again():
    silence = StoreSilence(SILENCE_SECONDS)
    assert poll(silence, 35) == [SILENCE_SECONDS, 2 * SILENCE_SECONDS, 3 * SILENCE_SECONDS]


def test_a_store_that_answers_is_never_reported():
    silence = StoreSilence(SILENCE_SECONDS)
    for _ in range(100):
        silence.answered()
        assert poll(silence, 9) == []


def test_after_an_answer_the_silence_begins_again():
    silence = StoreSilence(SILENCE_SECONDS)
    assert len(poll(silence, 25)) == 2
    silence.answered()
    assert poll(silence, 11) == [SILENCE_SECONDS]  # the first poll only sees the answer
