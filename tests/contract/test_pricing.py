"""The price list over HTTP, read by boto3 under a role's permissions."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lambdas.core.capacity import prices
from tests.contract.conftest import Cloud

GP3 = {"volumeApiName": "gp3", "productFamily": "Storage", "regionCode": "eu-central-1"}
MAY = {"Effect": "Allow", "Action": "pricing:GetProducts", "Resource": "*"}


def asked(client: Any, service: str = "AmazonEC2", **filters: str) -> Any:
    narrowed = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()]
    return client.get_products(ServiceCode=service, Filters=narrowed)


def error_of(client: Any, service: str = "AmazonEC2", **filters: str) -> str:
    with pytest.raises(ClientError) as refused:
        asked(client, service, **filters)
    return str(refused.value.response["Error"]["Code"])


def test_a_product_is_a_text_with_its_price(cloud: Cloud) -> None:
    (text,) = asked(cloud.client("pricing", cloud.acting_as(MAY)), **GP3)["PriceList"]
    product = json.loads(text)
    assert prices.dollars(product) == pytest.approx(1.19 * 0.08)
    assert prices.usage_type(product) == "EBS:VolumeUsage.gp3"


def test_what_aws_refuses_is_refused(cloud: Cloud) -> None:
    client = cloud.client("pricing")
    assert error_of(client, "AmazonEC3") == "NotFoundException"
    assert error_of(client, OfferingClass="standard") == "InvalidParameterException"
    with pytest.raises(ClientError, match="maxResults must be between 1 and 100"):
        client.get_products(ServiceCode="AmazonEC2", MaxResults=101)


def test_a_role_needs_the_permission(cloud: Cloud) -> None:
    other = {"Effect": "Allow", "Action": "pricing:DescribeServices", "Resource": "*"}
    with pytest.raises(ClientError, match="not authorized to perform: pricing:GetProducts") as denied:
        asked(cloud.client("pricing", cloud.acting_as(other)), **GP3)
    assert denied.value.response["Error"]["Code"] == "AccessDeniedException"


def test_there_is_no_endpoint_elsewhere(cloud: Cloud) -> None:
    who = cloud.root
    client = boto3.client(
        "pricing",
        endpoint_url=cloud.endpoint,
        region_name="eu-west-1",
        aws_access_key_id=who.key,
        aws_secret_access_key=who.secret,
    )
    with pytest.raises(ClientError, match="no endpoint in eu-west-1"):
        asked(client, **GP3)
