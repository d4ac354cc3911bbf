"""Words that control plane and hosts both know and can nowhere import together: a new one must stand on both sides."""

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lambdas.aws.clients import THROTTLED
from lambdas.aws.dynamodb import rows
from lambdas.aws.ec2 import fleet
from lambdas.core.capacity import placement
from lambdas.core.patrol import judgement
from lambdas.core.run import deadlines, silent_hosts
from lambdas.steps.patrol import missed_events
from localcloud.base.facts import Facts
from tests.unit.core.facts import NOON
from training.host.agent import standing_order
from training.host.agent.deadlines import lease
from training.host.program import ending, frameworks, silence
from training.host.reporting import progress
from trainyard.client.admin import teardown
from trainyard.core.model import gang
from trainyard.core.model.hardware import Cluster
from trainyard.core.model.job import Checkpoints, Job, Limits, Outputs, Pool
from trainyard.core.model.program import Data, Program, Result
from trainyard.protocol.cluster import Cluster as HostsCluster
from trainyard.protocol.cluster import Member, Role, Strategy
from trainyard.protocol.plan import RefusalKind
from trainyard.protocol.storage import GIB_MONTH
from trainyard.values import fields

ROOT = Path(__file__).resolve().parents[2]
HOST_TEXTS = [path.read_text() for path in sorted((ROOT / "training/host").rglob("*.py"))]
HOST = [ast.parse(text) for text in HOST_TEXTS]


def runtime_constant(module: str, name: str) -> Any:
    """What a module of the runtime calls so: its packages are on hosts alone, so it is read, not imported."""
    tree = ast.parse((ROOT / "trainyard/runtime" / f"{module}.py").read_text())
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and getattr(target, "id", None) == name:
            assert node.value is not None
            return ast.literal_eval(node.value)
    raise AssertionError(f"{module}.py has no {name}")


def words_in_calls(*functions: str, keyword: str | None = None) -> set[str]:
    """The literal texts that the hosts' code gives these functions first, or as that keyword."""
    found = set()
    for call in (node for tree in HOST for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if getattr(call.func, "attr", getattr(call.func, "id", None)) in functions:
            given = (
                [each.value for each in call.keywords if each.arg == keyword] if keyword else call.args[:1]
            )
            found |= {str(each.value) for each in given if isinstance(each, ast.Constant)}
    return found


def test_what_a_yard_leaves_is_priced_by_the_row_that_patrol_keeps() -> None:
    """The client may not import the functions."""
    assert tuple(teardown.PRICES.items()) == tuple(zip(("pk", "sk"), rows.PRICES, strict=True))
    assert {kind.value: dollars for kind, dollars in GIB_MONTH.items()} == teardown.US_EAST_1
    assert set(teardown.BILLED_AS) == set(teardown.Kind) - {teardown.Kind.PARAMETER}


def test_the_local_cloud_asks_of_a_gib_what_the_functions_take_it_to_cost() -> None:
    words = {"gp3": "disk", "snapshot": "snapshot", "s3": "bucket", "dynamodb": "table", "logs": "logs"}
    asked = {words[name]: dollars for name, dollars in Facts.load().storage_prices.items()}
    assert asked == {kind.value: dollars for kind, dollars in GIB_MONTH.items()}


@pytest.mark.parametrize("page", ["README.md", "docs/programs.md", "docs/job-file.md"])
def test_the_pages_name_every_strategy(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [kind.value for kind in Strategy if f"`{kind.value}`" not in text] == []


def test_users_are_told_how_long_a_search_for_room_pauses() -> None:
    """The sentence of `limits.wait_minutes`, and what placement does."""
    told = fields.keys(Limits)["wait_minutes"].meaning
    assert placement.GROWTH == 2, "the sentence says that they double"
    first, longest = placement.SHORTEST_ROUND_PAUSE, placement.LONGEST_PAUSE_AT_LEAST
    assert f"double from {first.seconds} seconds up to {longest.seconds // 60} minutes" in told
    assert placement.MOST_TRIES == 100, "the sentence says a hundredth of the time for each pool"


@pytest.mark.parametrize("strategy", Strategy)
def test_hosts_form_a_cluster_of_every_strategy(strategy: Strategy) -> None:
    asynchronous = strategy.is_asynchronous
    cluster = Cluster(
        strategy=strategy,
        workers=2 if strategy.has_several_hosts else 1,
        parameter_servers=int(asynchronous),
        evaluator=strategy.has_several_hosts,
    )
    job = Job(name="digits", program=Program(module="main"), cluster=cluster)
    members = [Member(instance=f"i-{number}", address=f"10.0.0.{number}") for number in range(job.gang)]
    hosts = HostsCluster(
        run="digits-1",
        attempt=1,
        strategy=strategy,
        assignments=gang.assignments(job, members),
        deadline=NOON,
    )
    chief, *others = hosts.assignments
    assert hosts.chief_trains is cluster.chief_trains
    assert (frameworks.tf_config(hosts, chief) is not None) is strategy.has_several_hosts
    assert all(hosts.serves(other) is (asynchronous or other.role == "evaluator") for other in others)
    assert {host.role for host in hosts.assignments} <= set(Role)


SECTIONS = {
    "program": Program,
    "data": Data,
    "cluster": Cluster,
    "checkpoints": Checkpoints,
    "outputs": Outputs,
    "limits": Limits,
    "pool": Pool,
}
"""Those that hosts read in job.json; `hardware`, `after` and `policy` are the control plane's."""
CONTROL_PLANES = {
    *(("cluster", key) for key in ("strategy", "parameter_servers", "chief", "evaluator")),
    ("pool", "minutes"),
    *(("limits", key) for key in ("hours", "dollars", "restarts")),
}
"""Keys of these that no host needs: roles and strategy stand in cluster.json itself, the deadline does, too."""
THROUGH = {("cluster", "workers"): "least_workers", ("outputs", "restore"): "are_restored"}


@pytest.mark.parametrize(
    ("section", "key"),
    [(section, each.name) for section, kind in SECTIONS.items() for each in dataclasses.fields(kind)],
)
def test_hosts_read_every_key_of_a_job_that_is_for_them(section: str, key: str) -> None:
    """A key that is new: hosts must do what it says, or CONTROL_PLANES here says that they need not."""
    of = "job.cluster" if section == "cluster" else section
    reading = rf"\b{of}\.{THROUGH.get((section, key), key)}\b"
    reads = any(re.search(reading, text) for text in HOST_TEXTS)
    assert reads is ((section, key) not in CONTROL_PLANES)


def test_every_section_of_a_job_is_for_hosts_or_for_the_control_plane() -> None:
    known = {*SECTIONS, "name", "hardware", "after", "labels", "policy", "origin"}
    assert {each.name for each in dataclasses.fields(Job)} == known


def literals_in(path: str, function: str) -> Iterator[str]:
    """Every literal text in a function of that file."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            yield from (
                str(each.value)
                for each in ast.walk(node)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def test_the_runtime_reads_what_hosts_tell_a_program_by_the_same_names() -> None:
    told = {
        each
        for each in literals_in("training/host/program/environment.py", "environment")
        if re.fullmatch(r"TRAINYARD_[A-Z_]*[A-Z]", each)
    }
    read = {
        f"TRAINYARD_{each.removeprefix('TRAINYARD_')}"
        for each in literals_in("trainyard/runtime/environment.py", "from_os")
        if re.fullmatch(r"[A-Z][A-Z_]*[A-Z]", each) and each != "TF_CONFIG"
    }
    at_home_only, for_programs_only = {"TRAINYARD_DEVICES"}, told - read
    assert read - told == at_home_only
    assert for_programs_only == {
        "TRAINYARD_ATTEMPT",
        "TRAINYARD_ROLE",
        "TRAINYARD_INDEX",
        "TRAINYARD_NOTEBOOK",
        "TRAINYARD_WORKERS",
    }


def test_a_program_by_hand_saves_as_a_job_that_says_nothing_of_it() -> None:
    texts = list(literals_in("trainyard/runtime/environment.py", "from_os"))
    defaults = dict(itertools.pairwise(texts))
    said = Checkpoints()
    assert float(defaults["CHECKPOINT_STEPS"]) == said.steps
    assert float(defaults["CHECKPOINT_SECONDS"]) == said.seconds
    assert float(defaults["CHECKPOINT_KEEP"]) == said.keep


def test_the_runtime_leaves_with_the_code_that_the_agent_takes_for_a_restart() -> None:
    assert runtime_constant("processes/leaving", "RESTART") == ending.RESTART


def test_the_alarm_of_a_cluster_that_forms_is_known_by_the_runtimes_line() -> None:
    assert runtime_constant("processes/forming", "FORMING") == ending.FORMING


def test_hosts_know_every_result_that_a_job_may_expect() -> None:
    assert set(ending.LEAVE_IT_IN) == set(Result)


def test_a_lease_is_as_long_as_the_control_plane_tags_it() -> None:
    assert lease.MARGIN == deadlines.MARGIN == judgement.LEASE_MARGIN
    assert lease.RESTARTED == judgement.RESTARTED


def test_hosts_give_a_program_as_long_as_the_reason_of_its_end_says() -> None:
    assert gang.PROGRAM_SILENT.total_seconds() == silence.SILENT_SECONDS


def test_hosts_speak_twice_before_a_run_is_taken_for_dead() -> None:
    beat, silent = timedelta(seconds=progress.ALIVE_SECONDS), missed_events.SILENT_FOR
    assert beat < silent < 2 * beat < deadlines.HEARTBEAT


def test_a_host_has_its_order_before_it_is_taken_for_lost() -> None:
    looks = standing_order.seconds_between_looks("running") + standing_order.LOOK_SECONDS
    assert timedelta(seconds=looks) < silent_hosts.LOST_AFTER


def test_every_kind_of_refusal_has_a_rank_and_a_code() -> None:
    assert sorted(placement.GRAVEST) == sorted(RefusalKind)
    assert set(fleet.KINDS.values()) == set(RefusalKind) - {RefusalKind.ACCESS, RefusalKind.CONFIGURATION}
    assert set(fleet.KINDS) >= THROTTLED
