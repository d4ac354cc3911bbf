"""Words that control plane and hosts both know and can nowhere import together: a new one must stand on both sides."""

import ast
import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lambdas.aws import fleet
from lambdas.aws.clients import THROTTLED
from lambdas.core.capacity import placement
from lambdas.core.capacity.plan import RefusalKind
from lambdas.core.edges import events
from lambdas.core.model import gang
from lambdas.core.model.gang import StopReason
from lambdas.core.model.job import Cluster, Job, Program, Result, Role, Strategy
from lambdas.core.patrol import verdict
from lambdas.core.run import deadlines
from lambdas.steps.patrol import missed_events
from lambdas.steps.signals import from_hosts
from tests.unit.core.facts import NOON
from training.host import errors
from training.host.agent import lease
from training.host.cluster import Cluster as HostsCluster
from training.host.program import ending, silence
from training.host.reporting import progress, signals

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


def test_the_runtime_knows_every_strategy() -> None:
    assert set(runtime_constant("processes/place", "STRATEGIES")) == set(Strategy)


@pytest.mark.parametrize("strategy", Strategy)
def test_hosts_form_a_cluster_of_every_strategy(strategy: Strategy) -> None:
    asynchronous = strategy.is_asynchronous
    cluster = Cluster(
        strategy=strategy,
        workers=2 if strategy.has_several_hosts else 1,
        parameter_servers=int(asynchronous),
        evaluator=asynchronous,
    )
    job = Job(name="digits", program=Program(module="main"), cluster=cluster)
    assigned = [
        gang.Assignment(f"i-{number}", role, number, f"10.0.0.{number}")
        for number, role in enumerate(job.roles)
    ]
    hosts = HostsCluster.from_json(
        gang.cluster_document(
            job, run="digits-1", attempt=1, assignments=assigned, checkpoint=None, deadline=NOON
        )
    )
    chief, *others = hosts.assignments
    assert hosts.chief_trains is cluster.chief_trains
    assert (hosts.tf_config(chief) is not None) is strategy.has_several_hosts
    assert all(hosts.serves(other) is asynchronous for other in others)
    assert {host.role for host in hosts.assignments} <= set(Role)


@pytest.mark.parametrize("key", [field.name for field in dataclasses.fields(Program)])
def test_hosts_read_every_key_of_a_program(key: str) -> None:
    readings = (
        f'program["{key}"]',
        f'["program"]["{key}"]',
        f'program.get("{key}"',
        f'["program"].get("{key}"',
    )
    assert any(reading in text for text in HOST_TEXTS for reading in readings)


def test_hosts_send_the_signals_that_are_listened_to() -> None:
    sent = words_in_calls("Signal", "_say", "_signal")
    assert sent == set(from_hosts.BY_WORD) == {*events.ABOUT_ONE_HOST, "progress"}
    assert sent >= signals.ENDINGS


def test_hosts_stop_for_the_reasons_that_the_control_plane_knows() -> None:
    assert words_in_calls("Stopped", "Leaving") | words_in_calls("_say", keyword="why") == set(StopReason)


def test_a_failure_is_the_programs_or_the_hosts() -> None:
    assert words_in_calls("Failed") == {"program", "host"}
    assert {errors.HostTrouble.kind, errors.ProgramFault.kind} == {"program", "host"}
    assert errors.GivenUp.kind == from_hosts.GIVEN_UP


def test_the_runtime_leaves_with_the_code_that_the_agent_takes_for_a_restart() -> None:
    assert runtime_constant("processes/leaving", "RESTART") == ending.RESTART


def test_hosts_know_every_result_that_a_job_may_expect() -> None:
    assert set(ending.LEAVE_IT_IN) == set(Result)


def test_a_lease_is_as_long_as_the_control_plane_tags_it() -> None:
    assert lease.MARGIN == deadlines.MARGIN == verdict.LEASE_MARGIN
    assert lease.RESTARTED == verdict.RESTARTED


def test_hosts_give_a_program_as_long_as_the_reason_of_its_end_says() -> None:
    assert gang.PROGRAM_SILENT.total_seconds() == silence.SILENT_SECONDS


def test_hosts_speak_twice_before_a_run_is_taken_for_dead() -> None:
    beat, silent = timedelta(seconds=progress.ALIVE_SECONDS), missed_events.SILENT_FOR
    assert beat < silent < 2 * beat < deadlines.HEARTBEAT


def test_every_kind_of_refusal_has_a_rank_and_a_code() -> None:
    assert sorted(placement.GRAVEST) == sorted(RefusalKind)
    assert set(fleet.KINDS.values()) == set(RefusalKind) - {RefusalKind.ACCESS, RefusalKind.CONFIGURATION}
    assert set(fleet.KINDS) >= THROTTLED
