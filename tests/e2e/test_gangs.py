"""Parameter servers on hosts without a GPU: two gangs, launched, kept and ended as one."""

import json
from typing import Any

from tests.e2e.runs import Runs
from trainyard.client import Run

CPU_TYPES = ["c7i.large", "m7i.large"]
ON_CPU = {"cpu_instance_types": CPU_TYPES, "cpu_roles": ["ps"]}
SERVED: dict[str, Any] = {
    "program": {"module": "serve"},
    "cluster": {"strategy": "parameter_server", "workers": 2, "parameter_servers": 2},
    "hardware": ON_CPU,
}
LONG = {"steps": 400, "step-delay": 0.05, "checkpoint-every": 10}


def in_mid_training(runs: Runs, name: str) -> Run:
    """With a long way to go."""
    return runs.in_mid_training(runs.job(name, **(SERVED | {"program": {"module": "serve", "args": LONG}})))


def hosts_of(run: Run, gang: int) -> list[dict[str, Any]]:
    """The instances of one gang, those that are gone too."""
    tag = {"Key": "trainyard:gang", "Value": str(gang)}
    return [one for one in run.yard.instances(run.id) if tag in one["Tags"]]


def roles_of(run: Run, attempt: int) -> dict[str, str]:
    """Role and index of an attempt by instance."""
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
    assert "serving as ps 1" in run.text("attempts/1/logs/ps-1.log")
    offer = run.json("plan.json")["offers"][0]
    assert [each["type"] for each in offer["beside"]] == CPU_TYPES
    billed = {host["type"]: host["price"] for host in run.summary["hosts"]}
    assert billed == {"g6.xlarge": offer["price"], "c7i.large": offer["beside"][0]["price"]}
    dollars = sum(host["dollars"] for host in run.summary["hosts"])
    assert abs(run.summary["cost"]["dollars"] - dollars) < 0.0001


def test_where_only_one_gang_has_room_none_is_kept_and_the_next_pool_is_asked(runs: Runs) -> None:
    first = "us-east-1b"  # the cheapest
    for name in CPU_TYPES:
        runs.cloud.fault("refuse", name, first, "spot")
    run = runs.run(runs.job("no-room-beside", **SERVED))
    assert run.succeeded, run.why()
    asked = run.json("plan.json")["asked"]
    assert [ask["answer"] for ask in asked] == ["refused", "launched"]
    assert asked[0]["code"] == "InsufficientInstanceCapacity"
    assert asked[0]["reason"].startswith("the parameter servers: "), asked[0]["reason"]
    in_vain = [one for one in runs.yard.instances(run.id) if one["Placement"]["AvailabilityZone"] == first]
    assert [one["InstanceType"] for one in in_vain] == ["g6.xlarge"] * 3
    assert set(roles_of(run, 1)).isdisjoint(one["InstanceId"] for one in in_vain)
    assert len(run.summary["hosts"]) == 8, "what was launched in vain was paid for too"
    assert len(run.summary["attempts"]) == 1


def test_the_other_cpu_type_will_do(runs: Runs) -> None:
    runs.cloud.fault("refuse", CPU_TYPES[0], "*", "*")
    run = runs.run(runs.job("other-type", **SERVED))
    assert run.succeeded, run.why()
    assert {one["InstanceType"] for one in hosts_of(run, 2)} == {CPU_TYPES[1]}
    assert [ask["answer"] for ask in run.json("plan.json")["asked"]] == ["launched"]


def test_a_parameter_server_that_vanishes_is_replaced_by_its_like_and_all_others_stay(runs: Runs) -> None:
    run = in_mid_training(runs, "ps-killed")
    lost = runs.host_of(run, "ps")
    runs.cloud.fault("kill", lost)
    runs.finish(run)
    it_went_on(run, "lost")
    assert len(hosts_of(run, 1)) == 3
    assert [one["InstanceType"] for one in hosts_of(run, 2)] == ["c7i.large"] * 3
    assert set(roles_of(run, 1)) - set(roles_of(run, 2)) == {lost}


def test_the_chief_saves_before_a_parameter_server_is_taken_back(runs: Runs) -> None:
    run = in_mid_training(runs, "ps-interrupted")
    before = runs.checkpoint_of(run)
    runs.cloud.fault("interrupt", runs.host_of(run, "ps"), "--seconds", "15")
    runs.finish(run)
    it_went_on(run, "interrupted")
    assert run.summary["attempts"][1]["from_step"] >= before


def it_went_on(run: Run, ending: str) -> None:
    assert run.succeeded, run.why()
    first, second = run.summary["attempts"]
    assert first["ending"] == ending, run.why()
    assert second["from_step"] > 0
    assert run.json("metrics.json")["step"] == 400


def test_a_launch_that_is_repeated_launches_nobody_twice(runs: Runs) -> None:
    """Its answer was lost after both gangs were launched: they are found by their tags."""
    functions = runs.yard.session.client("lambda")
    functions.put_function_concurrency(
        FunctionName="trainyard-train-await-hosts", ReservedConcurrentExecutions=0
    )
    try:
        run = runs.start(runs.job("launched-again", **SERVED))
        runs.until("a launched attempt", lambda: rows_of(run, "attempt#"))
        table = runs.yard.session.resource("dynamodb").Table(runs.yard.table)
        for row in (*rows_of(run, "attempt#"), *rows_of(run, "host#")):
            table.delete_item(Key={"pk": row["pk"], "sk": row["sk"]})
        (intent,) = rows_of(run, "intent#")
        table.put_item(Item={key: intent[key] for key in intent if key not in ("answer", "answered")})
        payload = json.dumps({"run": run.id, "attempt": 1})
        answer = functions.invoke(FunctionName="trainyard-train-launch", Payload=payload.encode())
        assert json.loads(answer["Payload"].read())["kind"] == "launched"
    finally:
        functions.delete_function_concurrency(FunctionName="trainyard-train-await-hosts")
    runs.finish(run)
    assert run.succeeded, run.why()
    assert (len(hosts_of(run, 1)), len(hosts_of(run, 2))) == (3, 2)
    assert sorted(row["type"] for row in rows_of(run, "host#")) == ["c7i.large"] * 2 + ["g6.xlarge"] * 3


def rows_of(run: Run, prefix: str) -> list[dict[str, Any]]:
    return [row for row in run.rows if row["sk"].startswith(prefix)]
