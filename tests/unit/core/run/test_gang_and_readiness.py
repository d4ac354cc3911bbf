"""Roles in the cluster, and readiness of the gang."""

from typing import Any

import pytest

from lambdas.core.run import readiness
from tests.unit.core.builders import after, job, served_job
from trainyard.core.model import gang
from trainyard.core.model.job import Job
from trainyard.protocol.cluster import Checkpoint, Cluster, Gang, Member, Strategy, checkpoint_of
from trainyard.values import serialization


def assigned(made: Job, hosts: dict[str, int]) -> list[tuple[str, str, int]]:
    found = gang.assignments(made, [Member(instance=name, gang=Gang(which)) for name, which in hosts.items()])
    return [(assignment.instance, assignment.role.value, assignment.index) for assignment in found]


def test_the_lowest_instance_id_is_chief_whatever_the_order() -> None:
    expected = [("i-1", "chief", 0), ("i-2", "worker", 1)]
    assert assigned(job(), {"i-2": 1, "i-1": 1}) == assigned(job(), {"i-1": 1, "i-2": 1}) == expected


ONE_GANG: dict[str, Any] = {"cpu_instance_types": [], "cpu_roles": []}
SEATED = [
    # name, cluster, hardware, hosts with their gang, roles in order
    ("parameter servers sit in the second gang", {}, {}, {"i-1": 2, "i-2": 1, "i-3": 1, "i-4": 2, "i-5": 1},
     ["i-2 chief 0", "i-3 worker 0", "i-5 worker 1", "i-1 ps 0", "i-4 ps 1"]),
    ("so may chief and evaluator", {"evaluator": True}, {"cpu_roles": ["chief", "ps", "evaluator"]},
     {"i-1": 1, "i-2": 2, "i-3": 2, "i-4": 1, "i-5": 2, "i-6": 2},
     ["i-2 chief 0", "i-1 worker 0", "i-4 worker 1", "i-3 ps 0", "i-5 ps 1", "i-6 evaluator 0"]),
    ("without a second gang all sit in one", {"evaluator": True}, ONE_GANG,
     {"i-1": 1, "i-2": 1, "i-3": 1, "i-4": 1, "i-5": 1, "i-6": 1},
     ["i-1 chief 0", "i-2 worker 0", "i-3 worker 1", "i-4 ps 0", "i-5 ps 1", "i-6 evaluator 0"]),
    ("a chief that is worker 0 takes no host of its own", {"chief": "worker"}, {},
     {"i-1": 1, "i-2": 1, "i-3": 2, "i-4": 2},
     ["i-1 chief 0", "i-2 worker 1", "i-3 ps 0", "i-4 ps 1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cluster", "hardware", "hosts", "roles"), [row[1:] for row in SEATED], ids=[row[0] for row in SEATED]
)
def test_who_is_who_with_parameter_servers(
    cluster: dict[str, Any], hardware: dict[str, Any], hosts: dict[str, int], roles: list[str]
) -> None:
    found = assigned(served_job(cluster, **hardware), hosts)
    assert [" ".join(map(str, assignment)) for assignment in found] == roles


def test_a_gang_is_called_by_its_roles() -> None:
    assert gang.describe(served_job(), Gang.CPU) == "the parameter servers"
    both = served_job(cpu_roles=["chief", "ps"])
    assert gang.describe(both, Gang.CPU) == "the chief and the parameter servers"


def test_cluster_json_is_the_contract() -> None:
    cluster = Cluster(
        run="digits-1a2b3c4d",
        attempt=2,
        strategy=Strategy.MULTI_WORKER,
        assignments=gang.assignments(
            job(), [Member(instance="i-1", address="10.0.1.5"), Member(instance="i-2", address="10.0.1.6")]
        ),
        checkpoint=Checkpoint(120, "runs/digits-1a2b3c4d/checkpoints/00000120/", 120),
        deadline=after(3600),
    )
    assert serialization.to_json(cluster) == {
        "run": "digits-1a2b3c4d",
        "attempt": 2,
        "strategy": "multi_worker",
        "port": 2222,
        "hosts": [
            {"instance": "i-1", "role": "chief", "index": 0, "address": "10.0.1.5"},
            {"instance": "i-2", "role": "worker", "index": 1, "address": "10.0.1.6"},
        ],
        "checkpoint": {"step": 120, "key": "runs/digits-1a2b3c4d/checkpoints/00000120/", "at_step": 120},
        "deadline": "2026-11-20T13:00:00.000Z",
    }


def test_a_fresh_start_has_no_checkpoint() -> None:
    assert checkpoint_of(None) is None
    assert checkpoint_of({"step": 3, "key": "k", "at": "x"}) == Checkpoint(3, "k")


def test_a_checkpoint_is_called_by_a_step_only_where_the_program_told_one() -> None:
    """A program's seventh upload, made at step 35, does not count as step 7."""
    latest = {"step": 7, "key": "k", "at_step": 35}
    found = checkpoint_of(latest)
    assert found is not None
    assert found.described == "the checkpoint of step 35"
    assert Checkpoint(7, "k").described == "checkpoint 7"


@pytest.mark.parametrize(
    ("survivors", "missing"), [([], 2), (["i-1"], 1), (["i-1", "i-1"], 1), (["a", "b", "c"], 0)]
)
def test_only_what_is_missing_is_launched(survivors: list[str], missing: int) -> None:
    assert gang.missing(job(), Gang.MAIN, survivors) == (missing, missing)


def test_each_gang_is_counted_for_itself() -> None:
    made = served_job()
    assert [gang.size(made, which) for which in Gang] == [3, 2]
    assert gang.missing(made, Gang.MAIN, ["i-1", "i-2", "i-3"]) == (0, 0)
    assert gang.missing(made, Gang.CPU, ["i-4"]) == (1, 1)


ALL = ("i-1", "i-2")
TABLE = [
    # name, ready, lost, now, kind, hosts, part of the reason
    ("ready is complete", ALL, {}, 0, "complete", (), "all 2 hosts are ready"),
    ("nobody yet", (), {}, 0, "waiting", ALL, "i-1, i-2 have not signalled ready"),
    ("one is missing", ("i-1",), {}, 0, "waiting", ("i-2",), "i-2 has not signalled ready"),
    ("strangers do not count", ("i-1", "i-9"), {}, 0, "waiting", ("i-2",), "1 of 2 hosts is"),
    ("in the last second it is complete", ALL, {}, 60, "complete", (), "all 2"),
    ("late", ("i-1",), {}, 60, "HostsNotReady", ("i-2",), "not there in time"),
    ("a lost host ends the wait at once", ALL, {"i-2": "terminated"}, 0, "HostLost", ("i-2",), "i-2: terminated"),
    ("another run's loss does not", ALL, {"i-9": "terminated"}, 0, "complete", (), "all 2"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("ready", "lost", "now", "kind", "hosts", "said"),
    [r[1:] for r in TABLE],
    ids=[r[0] for r in TABLE],
)
def test_readiness(
    ready: tuple[str, ...],
    lost: dict[str, str],
    now: float,
    kind: str,
    hosts: tuple[str, ...],
    said: str,
) -> None:
    found = readiness.assess(ALL, ready=ready, lost=lost, now=after(now), deadline=after(60))
    match found:
        case readiness.Complete():
            assert (kind, hosts) == ("complete", ())
        case readiness.Waiting(missing=missing):
            assert (kind, hosts) == ("waiting", missing)
        case readiness.Failed(error=error, lost=gone):
            assert (kind, hosts) == (error, gone)
    assert said in found.reason


ELASTIC_EVALUATED = {"workers": {"min": 1, "max": 3}, "evaluator": True}


@pytest.mark.parametrize("hosts", [2, 3, 4])
def test_of_min_and_max_workers_each_host_there_is_one(hosts: int) -> None:
    made = job(cluster={"workers": {"min": 2, "max": 4}})
    members = [Member(instance=f"i-{n}") for n in range(hosts)]
    roles = [assignment.role for assignment in gang.assignments(made, members)]
    assert [str(role) for role in roles] == ["chief", *["worker"] * (hosts - 1)]
    assert gang.fit_workers(made, members).cluster.workers == hosts


@pytest.mark.parametrize("second", [Gang.MAIN, Gang.CPU])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_of_min_and_max_workers_the_evaluator_is_none(workers: int, second: Gang) -> None:
    roles = ["evaluator"] if second is Gang.CPU else []
    made = job(cluster=ELASTIC_EVALUATED, hardware={"cpu_roles": roles})
    members = [*(Member(instance=f"i-{n}") for n in range(workers)), Member(instance="i-9", gang=second)]
    found = gang.assignments(made, members)
    assert [str(each.role) for each in found] == ["chief", *["worker"] * (workers - 1), "evaluator"]
    assert found[-1].instance == "i-9"
    assert gang.fit_workers(made, members).cluster.workers == workers


def test_a_lost_evaluator_is_replaced_and_no_worker_asked_for() -> None:
    made = job(cluster=ELASTIC_EVALUATED, hardware={"cpu_roles": ["evaluator"]})
    assert gang.missing(made, Gang.MAIN, ["i-1", "i-2"]) == (0, 0)
    assert gang.missing(made, Gang.CPU, []) == (1, 1)
    assert gang.describe(made, Gang.CPU) == "the evaluator"


@pytest.mark.parametrize(
    ("hosts", "said"), [(["i-1"], "the host is ready"), (["i-1", "i-2"], "all 2 hosts are ready")]
)
def test_a_complete_gang_is_counted_in_words_that_fit(hosts: list[str], said: str) -> None:
    verdict = readiness.assess(hosts, ready=hosts, lost={}, now=after(0), deadline=after(60))
    assert verdict == readiness.Complete(said)
