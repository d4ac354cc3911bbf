"""File systems in a plan: it leaves out zones without access to them, and names the reason."""

from dataclasses import replace

from tests.unit.core.builders import ZONES, job
from tests.unit.core.capacity.planning import planned
from trainyard.core.model.job import Job
from trainyard.core.model.program import Data
from trainyard.protocol.file_systems import FileSystem


def _with(*zones: str) -> Job:
    reached = dict.fromkeys(zones, "10.0.0.4")
    reasons = {zone: "fs-1 has no mount target in that zone." for zone in ZONES if zone not in zones}
    found = FileSystem(addresses=reached, unreachable=reasons)
    return replace(job(), data={"shared": Data(source="efs://fs-0123456789abcdef0/", file_system=found)})


def test_only_zones_with_a_mount_target_are_candidates() -> None:
    plan = planned(_with(ZONES[0]))
    assert {each.zone for each in plan.candidates} == {ZONES[0]}
    excluded = {each.zone: (each.code, each.reason) for each in plan.excluded}
    expected = ("no_mount_target", "data.shared: fs-1 has no mount target in that zone.")
    assert excluded == dict.fromkeys(ZONES[1:], expected)


def test_every_zone_is_a_candidate_if_hosts_reach_the_file_system_everywhere() -> None:
    assert {each.zone for each in planned(_with(*ZONES)).candidates} == set(ZONES)
