"""The instance metadata service from inside a host."""

import base64
import json

import pytest

from tests.contract.conftest import eventually
from tests.contract.hosts.conftest import Hosts, unique

ROOT = "http://169.254.169.254/latest"
TOKEN = f"TOKEN=$(curl -s -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' {ROOT}/api/token)"
BOTH = "-w '\\n%{http_code}'"


def ask(hosts: Hosts, instance_id: str, path: str) -> tuple[str, str]:
    """Return status and body of a path, requested with a session token."""
    command = f"curl -s {BOTH} -H \"X-aws-ec2-metadata-token: $TOKEN\" '{ROOT}/{path}'"
    body, _, status = hosts.run(instance_id, TOKEN, command).rpartition("\n")
    return status, body


def status_of(hosts: Hosts, instance_id: str, curl: str) -> str:
    return hosts.run(instance_id, f"curl -s -o /dev/null -w '%{{http_code}}' {curl}")


def test_without_a_token_there_is_no_answer(shared: Hosts, pair: list[str]) -> None:
    assert status_of(shared, pair[0], f"{ROOT}/meta-data/instance-id") == "401"
    assert (
        status_of(shared, pair[0], f"-H 'X-aws-ec2-metadata-token: made-up' {ROOT}/meta-data/instance-id")
        == "401"
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("-H 'X-aws-ec2-metadata-token-ttl-seconds: 21600'", "200"),
        ("-H 'X-aws-ec2-metadata-token-ttl-seconds: 21601'", "400"),
        ("-H 'X-aws-ec2-metadata-token-ttl-seconds: 0'", "400"),
        ("", "400"),
        ("-H 'X-aws-ec2-metadata-token-ttl-seconds: 60' -H 'X-Forwarded-For: 10.0.0.1'", "403"),
    ],
)
def test_a_token_lives_at_most_six_hours_and_passes_no_proxy(
    shared: Hosts, pair: list[str], headers: str, status: str
) -> None:
    assert status_of(shared, pair[0], f"-X PUT {headers} {ROOT}/api/token") == status


def test_a_token_ends(shared: Hosts, pair: list[str]) -> None:
    short = TOKEN.replace(": 60", ": 6")
    read = (
        f"curl -s -o /dev/null -w '%{{http_code}} ' -H \"X-aws-ec2-metadata-token: $TOKEN\" {ROOT}/meta-data/"
    )
    assert shared.run(pair[0], short, read, "sleep 6.2", read) == "200 401"


def test_a_host_reads_who_it_is(shared: Hosts, pair: list[str]) -> None:
    instance = shared.instance(pair[0])
    for path, value in (
        ("instance-id", pair[0]),
        ("instance-type", "g5.xlarge"),
        ("ami-id", instance["ImageId"]),
        ("local-ipv4", instance["PrivateIpAddress"]),
        ("placement/availability-zone", instance["Placement"]["AvailabilityZone"]),
        ("placement/region", "us-east-1"),
    ):
        assert ask(shared, pair[0], f"meta-data/{path}") == ("200", value), path
    status, document = ask(shared, pair[0], "dynamic/instance-identity/document")
    assert (status, json.loads(document)["instanceId"]) == ("200", pair[0])
    assert json.loads(document)["accountId"] == "123456789012"


def test_every_host_reads_its_own(shared: Hosts, pair: list[str]) -> None:
    assert [ask(shared, one, "meta-data/instance-id")[1] for one in pair] == pair


def test_tags_are_there_when_asked_for_and_follow_changes(hosts: Hosts) -> None:
    host = hosts.one(tags={"trainyard:run": "digits-1", "Name": "n"})
    assert ask(hosts, host, "meta-data/tags/instance/") == ("200", "Name\ntrainyard:run")
    assert ask(hosts, host, "meta-data/tags/instance/trainyard:run") == ("200", "digits-1")
    hosts.ec2.create_tags(Resources=[host], Tags=[{"Key": "trainyard:run", "Value": "digits-2"}])
    assert ask(hosts, host, "meta-data/tags/instance/trainyard:run") == ("200", "digits-2")


def test_tags_are_not_there_otherwise(hosts: Hosts) -> None:
    host = hosts.one(tags={"Name": "n"}, MetadataOptions={"HttpTokens": "required"})
    assert ask(hosts, host, "meta-data/tags/instance/Name")[0] == "404"


def test_credentials_are_those_of_the_role(shared: Hosts, pair: list[str]) -> None:
    assert ask(shared, pair[0], "meta-data/iam/security-credentials/") == ("200", shared.profile)
    status, text = ask(shared, pair[0], f"meta-data/iam/security-credentials/{shared.profile}")
    given = json.loads(text)
    assert (status, given["Code"], given["Type"]) == ("200", "Success", "AWS-HMAC")
    assert {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"} <= given.keys()
    info = json.loads(ask(shared, pair[0], "meta-data/iam/info")[1])
    assert info["InstanceProfileArn"].endswith(f":instance-profile/{shared.profile}")


def test_user_data_is_readable_and_a_script_runs_once(hosts: Hosts) -> None:
    script = "#!/bin/sh\necho run >> /opt/times\n"
    host = hosts.one(UserData=script)
    assert ask(hosts, host, "user-data") == ("200", script)
    eventually(lambda: hosts.run(host, "cat /opt/times || true") == "run")
    hosts.stop_and_start(host)
    assert hosts.run(host, "cat /opt/times") == "run"


def test_there_is_no_user_data_where_none_was_given(shared: Hosts, pair: list[str]) -> None:
    assert ask(shared, pair[0], "user-data")[0] == "404"


def test_no_interruption_is_announced_until_there_is_one(hosts: Hosts) -> None:
    host = hosts.one(InstanceMarketOptions={"MarketType": "spot"}, tags={"Name": unique("spot")})
    assert ask(hosts, host, "meta-data/instance-life-cycle") == ("200", "spot")
    for path in ("instance-action", "termination-time"):
        assert ask(hosts, host, f"meta-data/spot/{path}")[0] == "404"
    hosts.cloud.command("fault", "interrupt", host, "--seconds", "30")
    status, text = ask(hosts, host, "meta-data/spot/instance-action")
    assert status == "200"
    assert json.loads(text)["action"] == "terminate"
    assert json.loads(text)["time"].endswith("Z")
    hosts.until(host, "terminated")


def test_binary_user_data_comes_back_as_it_was(hosts: Hosts) -> None:
    data = bytes(range(256))
    host = hosts.one(UserData=data)
    got = hosts.run(
        host, TOKEN, f'curl -s -H "X-aws-ec2-metadata-token: $TOKEN" {ROOT}/user-data | base64 -w0'
    )
    assert base64.b64decode(got) == data
