"""The price list from the settings: similar products, and refusals of GetProducts."""

import json
from functools import cache
from typing import Any

import pytest

from localcloud.base.price_list import PriceList, PriceListError
from localcloud.base.settings import Settings


@cache
def listed() -> PriceList:
    return PriceList(Settings.load())


def products(service: str, *filters: str, **more: Any) -> list[dict[str, Any]]:
    """Return the products of all pages. A filter is `Field=Value`."""
    asked: dict[str, Any] = {"ServiceCode": service, "Filters": [filtered(each) for each in filters], **more}
    found: list[str] = []
    while True:
        page = listed().get_products(asked, asked_in="us-east-1")
        found += page["PriceList"]
        if "NextToken" not in page:
            return [json.loads(text) for text in found]
        asked["NextToken"] = page["NextToken"]


def filtered(each: str, how: str = "TERM_MATCH") -> dict[str, str]:
    field, _, value = each.partition("=")
    return {"Type": how, "Field": field, "Value": value}


def dollars(product: dict[str, Any]) -> list[float]:
    (term,) = product["terms"]["OnDemand"].values()
    return [float(tier["pricePerUnit"]["USD"]) for tier in term["priceDimensions"].values()]


def test_a_type_has_products_that_are_no_hosts_of_ours() -> None:
    every = products("AmazonEC2", "regionCode=us-east-1", "instanceType=g5.xlarge")
    assert len(every) > 1
    assert len({tuple(dollars(each)) for each in every}) > 1
    assert [0.0] in [dollars(each) for each in every]
    narrow = ("operatingSystem=Linux", "tenancy=Shared", "preInstalledSw=NA", "capacitystatus=Used")
    (one,) = products("AmazonEC2", "regionCode=us-east-1", "instanceType=g5.xlarge", *narrow)
    assert dollars(one) == [1.006]
    assert one["product"]["attributes"]["usagetype"] == "BoxUsage:g5.xlarge"


def test_another_region_costs_something_else() -> None:
    narrow = ("volumeApiName=gp3", "productFamily=Storage")
    (here,) = products("AmazonEC2", "regionCode=us-east-1", *narrow)
    (there,) = products("AmazonEC2", "regionCode=eu-central-1", *narrow)
    assert dollars(there) == [pytest.approx(1.19 * dollars(here)[0])]
    assert there["product"]["attributes"]["usagetype"] == "EUC1-EBS:VolumeUsage.gp3"
    assert products("AmazonEC2", "regionCode=eu-north-9", *narrow) == []


def test_pages_have_as_many_as_asked_for_and_hold_everything_once() -> None:
    every = products("AmazonEC2", "regionCode=us-east-1")
    assert len(every) > 300
    assert products("AmazonEC2", "regionCode=us-east-1", MaxResults=7) == every
    page = listed().get_products({"ServiceCode": "AmazonEC2", "MaxResults": 7}, asked_in="eu-central-1")
    assert len(page["PriceList"]) == 7


@pytest.mark.parametrize(
    ("how", "value", "found"),
    [
        ("EQUALS", "TimedStorage-ByteHrs", 1),
        ("CONTAINS", "TimedStorage", 2),
        ("ANY_OF", "TimedStorage-ByteHrs,TimedStorage-SIA-ByteHrs,other", 2),
        ("NONE_OF", "TimedStorage-ByteHrs", 1),
    ],
)
def test_a_filter_compares_as_its_type_says(how: str, value: str, found: int) -> None:
    filters = [filtered("regionCode=us-east-1"), filtered(f"usagetype={value}", how)]
    assert len(products("AmazonS3", Filters=filters)) == found


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({}, "InvalidParameterException", "serviceCode cannot be null or empty"),
        ({"ServiceCode": "AmazonEC3"}, "NotFoundException", "AmazonEC3"),
        ({"ServiceCode": "AmazonEC2", "MaxResults": 101}, "InvalidParameterException", "between 1 and 100"),
        ({"ServiceCode": "AmazonEC2", "MaxResults": 0}, "InvalidParameterException", "between 1 and 100"),
        ({"ServiceCode": "AmazonEC2", "FormatVersion": "v2"}, "InvalidParameterException", "aws_v1"),
        ({"ServiceCode": "AmazonEC2", "NextToken": "x"}, "InvalidNextTokenException", "token"),
        ({"ServiceCode": "AmazonEC2", "NextToken": "999999"}, "InvalidNextTokenException", "token"),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [filtered("OfferingClass=standard")]},
            "InvalidParameterException",
            "OfferingClass is not an attribute of AmazonEC2",
        ),
        (
            {"ServiceCode": "AmazonS3", "Filters": [filtered("volumeApiName=gp3")]},
            "InvalidParameterException",
            "volumeApiName is not an attribute of AmazonS3",
        ),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [filtered("tenancy=Shared", "LIKE")]},
            "InvalidParameterException",
            "Type",
        ),
        (
            {"ServiceCode": "AmazonEC2", "Filters": [filtered("tenancy")]},
            "InvalidParameterException",
            "Value",
        ),
    ],
)
def test_what_aws_refuses_is_refused(asked: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(PriceListError, match=said) as refused:
        listed().get_products(asked, asked_in="us-east-1")
    assert refused.value.code == code


def test_it_is_served_in_three_regions_alone() -> None:
    with pytest.raises(PriceListError, match="no endpoint in eu-west-1"):
        listed().get_products({"ServiceCode": "AmazonEC2"}, asked_in="eu-west-1")
