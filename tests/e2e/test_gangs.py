"""Parameter servers on hosts without a GPU: two gangs that are launched, kept and terminated together."""

from typing import Any

from tests.e2e.runs import Runs
from tests.support import quick
from trainyard.client import Run

CPU_TYPES = ["c7i.large", "m7i.large"]
ON_CPU = {"cpu_instance_types": CPU_TYPES, "cpu_roles": ["ps"]}
SERVED: dict[str, Any] = {
    "program": {"module": "serve"},
    "cluster": {"strategy": "parameter_server", "workers": 2, "parameter_servers": 2},
    "hardware": ON_CPU,
}


def in_mid_training(runs: Runs, name: str) -> Run:
    """Start a long run and return it during its training."""
    program = {"module": "serve", "args": quick.LONG_AT_FIRST}
    return runs.in_mid_training(runs.job(name, **(SERVED | {"program": program})))


def hosts_of(run: Run, gang: int) -> list[dict[str, Any]]:
    """Return the instances of a gang, including terminated ones."""
    tag = {"Key": "trainyard:gang", "Value": str(gang)}
    return [one for one in run.yard.instances(run.id) if tag in one["Tags"]]


def roles_of(run: Run, attempt: int) -> dict[str, str]:
    """Return role and index of each instance in an attempt."""
    hosts = run.json(f"attempts/{attempt}/cluster.json")["hosts"]
    return {host["instance"]: f"{host['role']} {host['index']}" for host in hosts}


def test_parameter_servers_run_without_a_gpu_beside_the_gpu_hosts(runs: Runs) -> None:
    run = runs.run(runs.job("two-gangs", **SERVED))
    assert run.succeeded, run.why()
    with_gpu, without = hosts_of(run, 1), hosts_of(run, 2)
    assert [one["InstanceType"] for one in with_gpu] == ["g6.xlarge"] * 3
    assert [one["InstanceType"] for one in without] == ["c7i.large"] * 2
    assert len({one["Placement"]["AvailabilityZone"] for one in (*with_gpu, *without)}) == 1
    roles = roles_of(run, 1)
    assert sorted(roles[one["InstanceId"]] for one in with_gpu) == ["chief 0", "worker 0", "worker 1"]
    assert sorted(roles[one["InstanceId"]] for one in without) == ["ps 0", "ps 1"]
    assert run.json("metrics.json")["step"] == 60
    assert "serving as ps 1" in run.log("ps-1")
    candidate = run.json("plan.json")["candidates"][0]
    assert [each["type"] for each in candidate["beside"]] == CPU_TYPES
    billed = {host["type"]: host["price"] for host in run.summary["hosts"]}
    assert billed == {"g6.xlarge": candidate["price"], "c7i.large": candidate["beside"][0]["price"]}
    dollars = sum(host["dollars"] for host in run.summary["hosts"])
    assert abs(run.summary["cost"]["dollars"] - dollars) < 0.0001


def test_the_chief_saves_before_a_parameter_server_is_taken_back(runs: Runs) -> None:
    run = in_mid_training(runs, "ps-interrupted")
    before = runs.checkpoint_of(run)
    runs.cloud.fault("interrupt", runs.host_of(run, "ps"))
    runs.finish(run)
    it_went_on(run, "interrupted")
    assert run.summary["attempts"][1]["from_step"] >= before


def it_went_on(run: Run, ending: str) -> None:
    assert run.succeeded, run.why()
    first, second = run.summary["attempts"]
    assert first["ending"] == ending, run.why()
    assert second["from_step"] > 0
    assert run.json("metrics.json")["step"] == 400
