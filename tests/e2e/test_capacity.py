"""Pools that have no room: the next one is used, and the user can read why."""

from tests.e2e.runs import Runs


def test_two_pools_refuse_and_the_third_is_used(runs: Runs) -> None:
    refusing = ("us-east-1a", "us-east-1b")
    for zone in refusing:
        runs.cloud.fault("refuse", "g6.xlarge", zone, "spot")
    run = runs.run(runs.job("third-pool"))
    assert run.succeeded, run.why()
    zones = {instance["Placement"]["AvailabilityZone"] for instance in runs.yard.instances(run.id)}
    assert zones == {"us-east-1c"}
    plan = run.json("plan.json")
    assert {offer["zone"] for offer in plan["offers"]} == {*refusing, "us-east-1c"}
    asked = {ask["pool"].split()[2].rstrip(","): (ask["answer"], ask["code"]) for ask in plan["asked"]}
    refused = dict.fromkeys(refusing, ("refused", "InsufficientInstanceCapacity"))
    assert asked == refused | {"us-east-1c": ("launched", None)}
    told = run.text("timeline.jsonl")
    for zone in refusing:
        assert zone in told, "the timeline says which pool refused"
    assert "InsufficientInstanceCapacity" in told


def test_when_every_pool_refuses_it_gives_up_in_time_with_every_reason(runs: Runs) -> None:
    runs.cloud.fault("refuse", "g5.xlarge", "*", "*")
    job = runs.job("no-room", hardware={"instance_types": ["g5.xlarge"]}, limits={"wait_minutes": 1})
    run = runs.run(job, seconds=180)
    assert run.execution.status == "FAILED"
    for zone in ("us-east-1a", "us-east-1b", "us-east-1c"):
        assert zone in run.summary["reason"], run.why()
    assert runs.yard.instances(run.id) == []
