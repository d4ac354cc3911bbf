"""Parameter Store: invalid names, and AWS's public parameters."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.conftest import Cloud

LATEST = "/aws/service/ami-amazon-linux-latest/"


@pytest.mark.parametrize("name", ["a/b/c", "/a//b", "//a", "a b"])
@pytest.mark.parametrize(
    ("operation", "field"),
    [("get_parameter", "Name"), ("get_parameters", "Names"), ("delete_parameter", "Name")],
)
def test_a_name_that_no_parameter_can_have_is_refused(
    cloud: Cloud, operation: str, field: str, name: str
) -> None:
    given: Any = [name] if field == "Names" else name
    with pytest.raises(ClientError, match="sub-paths divided by slash symbol") as refused:
        getattr(cloud.client("ssm"), operation)(**{field: given})
    assert refused.value.response["Error"]["Code"] == "ValidationException"


def test_a_parameter_is_read_by_its_name_its_version_and_its_arn(cloud: Cloud) -> None:
    ssm = cloud.client("ssm")
    ssm.put_parameter(Name="/read/by", Value="a", Type="String")
    arn = ssm.get_parameter(Name="/read/by")["Parameter"]["ARN"]
    for name in ("/read/by", "/read/by:1", arn):
        assert ssm.get_parameter(Name=name)["Parameter"]["Value"] == "a"


@pytest.mark.parametrize("name", ["al2023-ami-kernel-default-x86_64", "amzn2-ami-hvm-x86_64-gp2"])
def test_amazon_linux_is_found_under_its_public_parameter(cloud: Cloud, name: str) -> None:
    image = cloud.client("ssm").get_parameter(Name=f"{LATEST}{name}")["Parameter"]["Value"]
    [found] = cloud.client("ec2").describe_images(ImageIds=[image])["Images"]
    assert (found["State"], found["RootDeviceName"], found["Architecture"]) == (
        "available",
        "/dev/xvda",
        "x86_64",
    )
