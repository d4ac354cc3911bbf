"""Condition keys for the network path to S3: a gateway endpoint in the routes of a host's subnet identifies its VPC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.contract.conftest import REGION, Cloud, Credentials, allow
from tests.contract.hosts.conftest import Hosts, unique


@dataclass
class Net:
    """A VPC with one subnet, whose routes lead to S3 through an endpoint, and a bucket with one object."""

    hosts: Hosts
    bucket: str
    vpc: str
    subnet: str
    table: str
    endpoint: str

    def denies_unless(self, **condition: dict[str, str]) -> Credentials:
        """Return credentials of a role that may read the bucket unless the condition of its Deny holds."""
        objects = f"arn:aws:s3:::{self.bucket}/*"
        deny = {"Effect": "Deny", "Action": "s3:*", "Resource": objects, "Condition": condition}
        return self.hosts.cloud.acting_as(allow("s3:GetObject", objects), deny)

    def reads(self, host: str, who: Credentials) -> str:
        """Return the answer to a host that reads the object through a presigned URL."""
        endpoint = self.hosts.run(host, 'echo "$AWS_ENDPOINT_URL"')
        return self.hosts.run(
            host, f"curl -s -o /dev/null -w '%{{http_code}}' '{self.signed(endpoint, who)}'"
        )

    def signed(self, endpoint: str, who: Credentials) -> str:
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=who.key,
            aws_secret_access_key=who.secret,
            aws_session_token=who.token,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )
        return str(s3.generate_presigned_url("get_object", {"Bucket": self.bucket, "Key": "a"}))


@pytest.fixture
def net(hosts: Hosts, cloud: Cloud) -> Iterator[Net]:
    ec2, bucket = hosts.ec2, unique("bucket")
    cloud.client("s3").create_bucket(Bucket=bucket)
    cloud.client("s3").put_object(Bucket=bucket, Key="a", Body=b"a")
    vpc = ec2.create_vpc(CidrBlock="10.91.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.91.1.0/24")["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    made = ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName=f"com.amazonaws.{REGION}.s3", VpcEndpointType="Gateway", RouteTableIds=[table]
    )["VpcEndpoint"]
    yield Net(hosts, bucket, vpc, subnet, table, made["VpcEndpointId"])
    hosts.terminate_all()


UNIT = """[Service]
ExecStart=sleep 1000
ExecStopPost=/bin/sh -c "curl -s -o /dev/null -w '%{{http_code}}' '{url}' >/srv/answer"
"""


def equals(key: str, value: str) -> dict[str, Any]:
    return {"StringNotEquals": {key: value}}


def test_who_may_by_the_endpoint_of_a_vpc_may_from_no_other_place(net: Net) -> None:
    inside, outside = net.hosts.one(SubnetId=net.subnet), net.hosts.one()
    who = net.denies_unless(**equals("aws:SourceVpc", net.vpc))
    assert net.reads(inside, who) == "200"
    assert net.reads(outside, who) == "403", "its VPC has no endpoint"
    with pytest.raises(Exception, match=r"AccessDenied.*explicit deny"):
        net.hosts.cloud.client("s3", who).get_object(Bucket=net.bucket, Key="a")
    assert net.reads(inside, net.denies_unless(**equals("aws:SourceVpce", net.endpoint))) == "200"
    assert net.reads(inside, net.denies_unless(**equals("aws:SourceVpc", "vpc-0123"))) == "403"
    address = net.hosts.instance(inside)["PrivateIpAddress"]
    assert net.reads(inside, net.denies_unless(**equals("aws:VpcSourceIp", address))) == "200"
    net.hosts.ec2.modify_vpc_endpoint(VpcEndpointId=net.endpoint, RemoveRouteTableIds=[net.table])
    assert net.reads(inside, who) == "403", "no route leads through the endpoint any more"


def test_a_host_that_shuts_down_still_comes_by_its_endpoint(net: Net) -> None:
    """Test a host that shuts down. It still uploads its work."""
    host = net.hosts.one(SubnetId=net.subnet)
    endpoint = net.hosts.run(host, 'echo "$AWS_ENDPOINT_URL"')
    url = net.signed(endpoint, net.denies_unless(**equals("aws:SourceVpc", net.vpc)))
    unit = UNIT.format(url=url.replace("%", "%%"))
    path = "/etc/systemd/system/last.service"
    net.hosts.run(
        host,
        f"mkdir -p /srv && cat >{path} <<'UNIT'\n{unit}UNIT",
        "systemctl daemon-reload",
        "systemctl start last",
    )
    net.hosts.stop_and_start(host)
    assert net.hosts.run(host, "cat /srv/answer") == "200"
