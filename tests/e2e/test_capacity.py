"""A full capacity pool: the next one is used, and the user can read the reason."""

from tests.e2e.runs import Runs


def test_when_every_pool_refuses_it_gives_up_in_time_with_every_reason(runs: Runs) -> None:
    runs.cloud.fault("refuse", "g5.xlarge", "*", "*")
    job = runs.job("no-room", hardware={"instance_types": ["g5.xlarge"]}, limits={"wait_minutes": 1})
    run = runs.run(job)
    assert run.execution.status == "FAILED"
    for zone in ("us-east-1a", "us-east-1b", "us-east-1c"):
        assert zone in run.summary["reason"], run.why()
    assert runs.yard.instances(run.id) == []
