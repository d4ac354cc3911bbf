"""The invariants hold in clean worlds, in a slice of all single faults, and in every world that once broke one.

Other commits try other slices.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from simulation.cases import selection, traces
from simulation.cases.campaign import Cores
from simulation.cases.case import Case, parse
from simulation.faults import Fault
from simulation.invariants.model import describe_broken
from simulation.scenarios import SCENARIOS
from simulation.simulate import Result, simulate
from simulation.template import YardTemplate
from simulation.yard.network import Network

ROOT = Path(__file__).parents[2]
SLICE = 120
"""The number of worlds: about a minute on two cores."""
WORLDS = tuple(
    line.partition("  # ")[0].strip()
    for line in Path(__file__).with_name("worlds.txt").read_text().splitlines()
    if not line.startswith("#")
)
AFTERWARDS = """
import gc, os, sys, time
from pathlib import Path
import boto3
from lambdas import environment
from simulation.cases import process
from simulation.scenarios import SCENARIOS
from simulation.simulate import simulate
before, read = dict(os.environ), environment.read
with process.world_environment(Path(sys.argv[1])) as yard:
    simulate(yard, SCENARIOS["dev-host"])
    process.clean_up()
assert os.environ == before
assert environment.read is read and environment.os is os
assert gc.isenabled()
now = time.time()
time.sleep(0.01)
assert time.time() > now
sts = boto3.client("sts", endpoint_url="http://127.0.0.1:9", region_name="us-east-1",
                   aws_access_key_id="a", aws_secret_access_key="b")
try:
    sts.get_caller_identity()
except Exception as error:
    assert type(error).__name__ == "EndpointConnectionError", repr(error)
"""


def broken_in(result: Result) -> list[str]:
    return list(describe_broken(result.broken))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_world_without_faults_keeps_every_invariant(yard: YardTemplate, scenario: str) -> None:
    assert broken_in(simulate(yard, SCENARIOS[scenario])) == []


def test_the_short_path_to_aws_gives_the_same_world_as_http(
    yard: YardTemplate, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {name: traces.digest(simulate(yard, each, seed=3).trace) for name, each in SCENARIOS.items()}
    monkeypatch.setattr(Network, "uses_short_path", False)
    assert {
        name: traces.digest(simulate(yard, each, seed=3).trace) for name, each in SCENARIOS.items()
    } == short


def test_a_process_is_its_own_again_after_its_worlds(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_no_single_fault_of_this_commits_slice_breaks_an_invariant(yard: YardTemplate, folder: Path) -> None:
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    first = int(hashlib.sha256(commit.encode()).hexdigest()[:6], 16)
    with Cores(folder, 2) as cores:
        spaces = {name: each.faults for name, each in cores.clean(SCENARIOS).items()}
        cases = selection.sample(selection.list_singles(selection.drop_shared(spaces)), SLICE, first)
        found = cores.findings(cases, lambda _: None)
    wrong = [f"{each.case.command}\n    {violation.what}" for each in found for violation in each.violations]
    assert not wrong, "\n".join(wrong)


def test_retries_are_fault_points_three_times_and_where_they_do_something_new(
    yard: YardTemplate,
) -> None:
    tries = [
        point for _, point in simulate(yard, SCENARIOS["dev-host"]).points if "dev-host-await-host" in point
    ]
    for tried_again in ("", "/1 dynamodb.query", "/3 ssm.describe_instance_information"):
        assert (
            len([point for point in tries if point.partition("#")[2].lstrip("0123456789") == tried_again])
            == 3
        )
    assert tries[-1] == "dev-host-await-host#15/4 dynamodb.transact_write_items"


@pytest.mark.parametrize("text", WORLDS)
def test_a_world_that_once_broke_an_invariant_keeps_it_now(yard: YardTemplate, text: str) -> None:
    case: Case = parse(text)
    result = simulate(yard, SCENARIOS[case.scenario], seed=case.seed, faults=case.faults)
    assert broken_in(result) == []
    assert set(result.injected) == set(case.faults), (
        "otherwise its fault points have moved and the world shows nothing"
    )


def test_every_fault_can_be_written_and_read() -> None:
    fault = Fault.parse("host host-1 after finished #1: is cut off")
    assert Fault.parse(str(fault)) == fault
