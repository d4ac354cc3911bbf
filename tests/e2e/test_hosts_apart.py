"""Attacks on another run of the yard by a program and by root of a host, and by a program on its own host, all fail."""

import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.e2e.published import SCRIPTS, script
from tests.e2e.runs import Runs
from tests.support import quick

TRIED = re.compile(r"attack: (.*): (\w[\w ]*)$", re.MULTILINE)
PORT = 7777


def test_another_runs_program_neither_ends_nor_fakes_nor_tells_a_run_anything(runs: Runs) -> None:
    steps = {"args": quick.UNTIL_RELEASED}
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
    sent_away = runs.yard.bucket.json(f"credentials/{args['user']}.json")
    assert sent_away
    with pytest.raises(ClientError, match=r"AccessDenied.*explicit deny"):
        acting_elsewhere(runs, sent_away).get_object(Bucket=args["bucket"], Key=f"runs/{victim.id}/job.json")
    as_run = args | {"who": "run", "own": "${run}"}
    attacker = runs.run(script(runs, "hostile", args=as_run, program={"expect": []}))
    assert attacker.succeeded, attacker.why()
    by_root = by_root_of_another_host(runs, args)
    for output in (attacker.log(), by_root):
        assert "all was tried" in output
        tried = TRIED.findall(output)
        assert len(tried) > 75
        assert [name for name, came in tried if came == "went through"] == []
        assert {came for _, came in tried} <= {
            "AccessDenied",
            "AccessDeniedException",
            "UnauthorizedOperation",
        }
    assert {key: victim.text(key) for key in before} == before
    runs.let_finish(victim)
    runs.finish(victim)
    assert victim.succeeded, victim.why()
    assert (victim.summary["steps"]["done"], len(victim.summary["hosts"])) == (
        quick.UNTIL_RELEASED["steps"],
        1,
    )
    assert victim.summary["hosts"][0]["instance"] == host
    signals = [event.event for event in victim.timeline if event.source == "host"]
    assert signals.count("finished") == 1
    assert not {"failed", "stopped"} & set(signals)
    named = f"{runs.yard.name.lower()}-signal-forged"
    cloudwatch = runs.yard.session.client("cloudwatch")
    runs.until(
        f"the alarm {named} rings",
        lambda: cloudwatch.describe_alarms(AlarmNames=[named])["MetricAlarms"][0]["StateValue"] == "ALARM",
    )


def acting_elsewhere(runs: Runs, given: Mapping[str, str]) -> Any:
    """Return a client of S3 with credentials that were copied from a host."""
    session = runs.yard.session
    return boto3.client(
        "s3",
        endpoint_url=session.endpoint,
        region_name=session.region,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )


def by_root_of_another_host(runs: Runs, args: dict[str, str]) -> str:
    """Run the same attacks as root of a host, with the role of that host, and return the log."""
    steps, alone = {"args": quick.UNTIL_RELEASED}, {"workers": 1, "strategy": "single"}
    other = runs.in_mid_training(runs.job("other", program=steps, cluster=alone))
    given = args | {"who": "host", "own": other.id}
    command = ["/opt/trainyard/venv/bin/python", "/srv/hostile.py"]
    command += [word for name, value in given.items() for word in (f"--{name}", value)]
    write = f"cat >/srv/hostile.py <<'PROGRAM'\n{(SCRIPTS / 'hostile.py').read_text()}\nPROGRAM"
    output = runs.on(
        runs.host_of(other, "chief"), write, f"cd / && AWS_DEFAULT_REGION=$AWS_REGION {shlex.join(command)}"
    )
    runs.let_finish(other)
    runs.finish(other)
    assert other.succeeded, other.why()
    return output


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts of an ordinary user's local cloud have one account only")
def test_a_program_cannot_touch_its_agent_its_host_or_a_neighbours_ports(runs: Runs) -> None:
    steps = {"args": quick.UNTIL_RELEASED}
    alone = {"cluster": {"workers": 1, "strategy": "single"}}
    neighbour = runs.in_mid_training(runs.job("neighbour", program=steps, **alone))
    host = runs.host_of(neighbour, "chief")
    listen = f"nohup python3 -m http.server {PORT} --bind 0.0.0.0 --directory /srv >/dev/null 2>&1 &"
    runs.on(host, "mkdir -p /srv/empty && cd /srv/empty", listen)
    (address,) = [one["PrivateIpAddress"] for one in runs.yard.instances() if one["InstanceId"] == host]
    patient = "curl -s --retry 60 --retry-connrefused --retry-delay 1"
    assert runs.on(host, f"{patient} -o /dev/null -w '%{{http_code}}' http://{address}:{PORT}/") == "200"
    args = {"neighbour": f"{address}:{PORT}"}
    run = runs.run(script(runs, "escaping", args=args, program={"expect": ["model"]}))
    assert run.succeeded, run.why()
    output = run.log()
    assert "all was tried" in output
    assert "who: True /var/lib/trainyard/home" in output
    tried = TRIED.findall(output)
    assert len(tried) > 50
    assert [name for name, came in tried if came == "went through"] == []
    assert [key for key in run.keys if key.startswith(("model/", "tensorboard", "checkpoints/"))] == [
        "model/mine.txt"
    ], "the target of a link that only root may read is not uploaded"
    runs.let_finish(neighbour)
    runs.finish(neighbour)
    assert neighbour.succeeded, neighbour.why()
    assert len(neighbour.summary["hosts"]) == 1
