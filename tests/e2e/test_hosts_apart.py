"""A program with all that its run and its host may do, against another run of the yard: nothing comes of it."""

import re

import pytest

from tests.e2e.runs import Runs
from tests.e2e.test_scripts import script


@pytest.mark.timeout(600)
def test_another_runs_program_neither_ends_nor_fakes_nor_tells_a_run_anything(runs: Runs) -> None:
    steps = {"args": {"steps": 4000, "step-delay": 0.02}}
    victim = runs.in_mid_training(
        runs.job("victim", program=steps, cluster={"workers": 1, "strategy": "single"})
    )
    host = runs.host_of(victim, "chief")
    (instance,) = [one for one in runs.yard.instances() if one["InstanceId"] == host]
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    before = {key: victim.text(key) for key in ("job.json", "plan.json", "attempts/1/cluster.json")}
    for key in ("data/of-others/secret.txt", "programs/of-others/secret.tar.gz"):
        runs.yard.bucket.put(key, b"theirs")
    args = {
        "bucket": runs.yard.bucket.name,
        "bus": tags["trainyard:bus"],
        "victim": victim.id,
        "host": host,
        "user": f"{tags['trainyard:role']}:{host}",
    }
    attacker = runs.run(script(runs, "hostile", args=args, program={"expect": []}))
    assert attacker.succeeded, attacker.why()
    tried = re.findall(
        r"attack: (.*): ([A-Za-z ]+)$", attacker.text("attempts/1/logs/chief-0.log"), re.MULTILINE
    )
    assert len(tried) > 150
    assert [name for name, said in tried if said == "went through"] == []
    assert {said for _, said in tried} <= {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
    assert {key: victim.text(key) for key in before} == before
    runs.finish(victim)
    assert victim.succeeded, victim.why()
    assert (victim.summary["steps"]["done"], len(victim.summary["hosts"])) == (4000, 1)
    assert victim.summary["hosts"][0]["instance"] == host
    said = [event.event for event in victim.timeline if event.source == "host"]
    assert said.count("finished") == 1
    assert not {"failed", "stopped"} & set(said)
    named = f"{runs.yard.name.lower()}-signal-forged"
    cloudwatch = runs.yard.session.client("cloudwatch")
    runs.until(
        f"the alarm {named} rings",
        lambda: cloudwatch.describe_alarms(AlarmNames=[named])["MetricAlarms"][0]["StateValue"] == "ALARM",
    )
