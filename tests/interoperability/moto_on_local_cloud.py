"""A plugin for pytest, within moto's own tests: they ask the local cloud, and leave no host behind.

moto's tests know the images and the keys of moto's server; here they are those of the account that the environment
names. What a test leaves is the next one's company, as it would be in an account.
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
