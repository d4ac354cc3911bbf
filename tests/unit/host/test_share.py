"""Work that may take only a share of a processor."""

import time

from training.host.share import Share


def test_a_turn_that_took_long_is_followed_by_a_pause_and_a_short_one_by_none() -> None:
    share = Share(1e-6)
    before = share.is_left
    with share.turn():
        began = time.thread_time()
        while time.thread_time() < began + 0.01:
            pass
    assert before, "the first turn need not wait"
    assert not share.is_left, "10 ms of a processor are a millionth of three hours"
    generous = Share(1e9)
    with generous.turn():
        sum(range(1000))
    assert generous.is_left
