"""Every kind of refusal by EC2 has a rank and a code. Pauses match the docs."""

from lambdas.aws.clients import THROTTLED
from lambdas.aws.ec2 import fleet
from lambdas.core.capacity import placement
from trainyard.core.model.job import Limits
from trainyard.protocol.plan import RefusalKind
from trainyard.values import fields


def test_every_kind_of_refusal_has_a_rank_and_a_code() -> None:
    assert sorted(placement.GRAVEST) == sorted(RefusalKind)
    assert set(fleet.KINDS.values()) == set(RefusalKind) - {RefusalKind.ACCESS, RefusalKind.CONFIGURATION}
    assert set(fleet.KINDS) >= THROTTLED


def test_users_are_told_how_long_a_search_for_room_pauses() -> None:
    """The description of `limits.wait_minutes` matches the pauses of placement."""
    told = fields.keys(Limits)["wait_minutes"].meaning
    assert placement.GROWTH == 2, "the sentence says that they double"
    first, longest = placement.SHORTEST_ROUND_PAUSE, placement.LONGEST_PAUSE_AT_LEAST
    assert f"double from {first.seconds} seconds up to {longest.seconds // 60} minutes" in told
    assert placement.MOST_TRIES == 100, "the sentence says a hundredth of the time for each pool"
