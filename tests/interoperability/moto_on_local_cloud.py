"""A pytest plugin that runs moto's own tests against the local cloud and terminates their hosts.

Images and keys belong to the account in the environment, not to moto's server. Other resources of a test remain for
the next tests, as in a real account.
"""

import os
from collections.abc import Iterator

import boto3
import pytest
from moto.core.config import default_user_config

import tests

IMAGE = os.environ["INTEROPERABILITY_IMAGE"]
LIVE = ("pending", "running", "stopping", "stopped")

default_user_config["core"]["mock_credentials"] = False
for name in ("EXAMPLE_AMI_ID", "EXAMPLE_AMI_ID2", "EXAMPLE_AMI_PARAVIRTUAL", "EXAMPLE_AMI_WINDOWS"):
    setattr(tests, name, IMAGE)


@pytest.fixture(autouse=True)
def no_host_is_left() -> Iterator[None]:
    yield
    ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=os.environ["TEST_SERVER_MODE_ENDPOINT"])
    pages = ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "instance-state-name", "Values": list(LIVE)}]
    )
    for page in pages:
        ids = [each["InstanceId"] for found in page["Reservations"] for each in found["Instances"]]
        for each in ids:
            ec2.modify_instance_attribute(InstanceId=each, DisableApiTermination={"Value": False})
        if ids:
            ec2.terminate_instances(InstanceIds=ids)
