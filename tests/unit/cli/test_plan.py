"""Output of `plan` for excluded pools."""

from tests.unit.client.facts import NOON
from trainyard.cli.commands.plan import excluded_lines
from trainyard.client.runs.plan import JobPlan, LeftOut


def test_pools_that_are_left_out_for_one_reason_are_one_line() -> None:
    volta = [LeftOut("p3.2xlarge", f"us-east-1{zone}", "spot", "incompatible", "a V100") for zone in "ab"]
    found = JobPlan(
        pools=(),
        left_out=(*volta, LeftOut("g5.xlarge", "us-east-1a", "spot", "quota", "the quota is 0")),
        gang=1,
        least_gang=1,
        image="ami-1",
        hourly_cap=None,
        made=NOON,
        reason="",
        prices="",
        quotas={},
        warnings=(),
    )
    assert excluded_lines(found) == [
        "excluded: p3.2xlarge in us-east-1a spot, us-east-1b spot: a V100",
        "excluded: g5.xlarge in us-east-1a spot: the quota is 0",
    ]
