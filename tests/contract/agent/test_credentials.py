"""Credentials of a run on its host: requested, stored, renewed before their expiry, and used by every tool."""

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.contract.agent.host import CREDENTIALS, Yard
from tests.contract.conftest import ROOT, Credentials, allow, eventually
from training.host import account, credentials, renewal
from training.host.bucket import Bucket
from training.host.errors import AccessDenied, HostTrouble
from training.host.renewal import Renewal
from training.host.reporting.outbox import Sender
from trainyard.protocol import signals
from trainyard.protocol.signals import Signal

ME = Sender("bus", "AROAHOST:i-0123456789abcdef0")


@pytest.fixture
def said() -> list[Signal]:
    return []


@pytest.fixture
def run_credentials(yard: Yard, said: list[Signal]) -> Renewal:
    """Return the renewal of credentials for a host without stored credentials."""
    yard.cloud.client("s3").delete_object(Bucket=yard.bucket, Key=CREDENTIALS)
    return of(yard, said)


def of(yard: Yard, said: list[Signal], who: Credentials | None = None) -> Renewal:
    return Renewal(
        Bucket(yard.cloud.client("s3", who), yard.bucket),
        ME,
        yard.paths,
        account=account.own(),
        send=said.append,
        run=yard.run,
        request=signals.Credentials(),
    )


def are_there(run_credentials: Renewal) -> bool:
    return run_credentials.are_valid


def give(yard: Yard, minutes: float, key: str | None = None) -> None:
    root = yard.cloud.root
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    given = {"Version": 1, "AccessKeyId": key or root.key, "SecretAccessKey": root.secret, "SessionToken": ""}
    yard.put(CREDENTIALS, json.dumps(given | {"Run": yard.run, "Expiration": until.isoformat()}))


def test_a_host_asks_until_there_are_some(
    yard: Yard, run_credentials: Renewal, said: list[Signal], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_credentials.turn()
    run_credentials.turn()
    assert said == [signals.Credentials()]
    monkeypatch.setattr(run_credentials, "_again", 0.0)
    run_credentials.turn()
    assert len(said) == 2
    assert are_there(run_credentials) is False
    give(yard, 60)
    run_credentials.turn()
    assert are_there(run_credentials)
    run_credentials.turn()
    assert len(said) == 2
    assert yard.paths.credentials.stat().st_mode & 0o077 == 0


def test_they_are_renewed_half_an_hour_before_they_end(
    yard: Yard, run_credentials: Renewal, said: list[Signal]
) -> None:
    give(yard, 29, key="first")
    run_credentials.turn()
    assert run_credentials.are_valid
    assert len(said) == 1, "they hold, and new ones are asked for"
    give(yard, 60, key="second")
    run_credentials.turn()
    assert json.loads(yard.paths.credentials.read_text())["AccessKeyId"] == "second"
    assert len(said) == 1


def test_an_agent_that_was_restarted_has_them_still(
    yard: Yard, run_credentials: Renewal, said: list[Signal]
) -> None:
    give(yard, 60)
    run_credentials.turn()
    again = of(yard, said)
    assert again.are_valid
    assert said == []


def test_those_that_have_ended_are_none(yard: Yard, run_credentials: Renewal, said: list[Signal]) -> None:
    give(yard, -1)
    run_credentials.turn()
    assert not run_credentials.are_valid
    assert len(said) == 1


def test_whoever_waits_is_told_that_none_come_or_that_it_may_not_see_them(
    yard: Yard, run_credentials: Renewal, said: list[Signal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(HostTrouble, match="the yard's function signal issues them: check its log"):
        run_credentials.wait()
    nobody = yard.cloud.acting_as(allow("s3:ListBucket"))
    give(yard, 60)
    blind = of(yard, said, nobody)
    blind.turn()
    with pytest.raises(
        AccessDenied, match=f"the host role lacks s3:GetObject on s3://{yard.bucket}/{CREDENTIALS}"
    ):
        blind.wait()


def test_a_client_that_is_older_than_the_credentials_takes_the_new_ones(
    yard: Yard, run_credentials: Renewal
) -> None:
    client = credentials.run_session(yard.paths, "us-east-1").client("s3", endpoint_url=yard.cloud.endpoint)
    bucket = Bucket(client, yard.bucket, credentials.environment(yard.paths))
    with pytest.raises(HostTrouble, match="trainyard-run"):
        bucket.read("data/a")
    yard.put("data/a", "hello")
    limited = yard.cloud.acting_as(allow("s3:GetObject", f"arn:aws:s3:::{yard.bucket}/data/*"))
    yard.give(limited)
    run_credentials.turn()
    assert bucket.read("data/a") == b"hello"
    with pytest.raises(AccessDenied, match="the role of runs lacks s3:PutObject"):
        bucket.write("data/a", b"other")
    text = json.loads(yard.paths.credentials.read_text())
    ended = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    yard.paths.credentials.write_text(json.dumps(text | {"Expiration": ended}))
    fresh = credentials.run_session(yard.paths, "us-east-1").client("s3", endpoint_url=yard.cloud.endpoint)
    with pytest.raises(HostTrouble, match="the run's credentials have expired, and no new ones have arrived"):
        Bucket(fresh, yard.bucket).read("data/a")


PROGRAM = (
    "import boto3, sys; print(boto3.client('s3').get_object(Bucket=sys.argv[1], Key='data/a')['Body'].read())"
)


def test_boto3_the_aws_command_and_s5cmd_take_the_same(
    yard: Yard, run_credentials: Renewal, tmp_path: Path
) -> None:
    """Use the only credentials in the environment."""
    yard.put("data/a", "hello")
    yard.give(yard.cloud.acting_as(allow("s3:GetObject", f"arn:aws:s3:::{yard.bucket}/data/*")))
    run_credentials.turn()
    credentials.configure(yard.paths, account.own())
    aws = next(iter(sorted(ROOT.glob(".tools/awscli/bin/aws"))))
    s5cmd = Path(sys.executable).with_name("s5cmd")
    uri = f"s3://{yard.bucket}/data/a"
    given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    told = (
        given
        | credentials.environment(yard.paths)
        | {
            "AWS_ENDPOINT_URL": yard.cloud.endpoint,
            "S3_ENDPOINT_URL": yard.cloud.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    )
    for command in (
        [sys.executable, "-c", PROGRAM, yard.bucket],
        [str(aws), "s3api", "get-object", "--bucket", yard.bucket, "--key", "data/a", "/dev/stdout"],
        [str(s5cmd), "cat", uri],
    ):
        done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "hello" in done.stdout
        without = {**told, "AWS_CONFIG_FILE": str(tmp_path / "none")}
        assert subprocess.run(command, env=without, capture_output=True, check=False).returncode


def test_an_agent_fetches_nothing_before_it_has_them(yard: Yard) -> None:
    yard.prepare("print('trains')")
    yard.cloud.client("s3").delete_object(Bucket=yard.bucket, Key=CREDENTIALS)
    yard.start_agent()
    yard.hear("credentials")
    assert not yard.paths.job.exists()
    threading.Timer(0.1, lambda: yard.give(yard.cloud.root)).start()
    yard.hear("ready")
    assert eventually(yard.paths.credentials.exists)
