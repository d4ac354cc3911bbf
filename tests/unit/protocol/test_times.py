"""A host sends signals and receives orders before the yard presumes that it is lost."""

from datetime import timedelta

from lambdas.core.run import deadlines, silent_hosts
from lambdas.steps.patrol import missed_events
from training.host.agent import standing_order
from training.host.reporting import progress


def test_hosts_speak_twice_before_a_run_is_taken_for_dead() -> None:
    beat, silent = timedelta(seconds=progress.ALIVE_SECONDS), missed_events.SILENT_FOR
    assert beat < silent < 2 * beat < deadlines.HEARTBEAT


def test_a_host_has_its_order_before_it_is_taken_for_lost() -> None:
    looks = standing_order.seconds_between_looks("running") + standing_order.LOOK_SECONDS
    assert timedelta(seconds=looks) < silent_hosts.LOST_AFTER
