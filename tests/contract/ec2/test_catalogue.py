"""Listings: filters, pages, types, zones, quotas."""

from typing import Any

import pytest

from tests.contract.ec2.conftest import Yard, error_code, members, tags, unique

G5 = {"Name": "instance-type", "Values": ["g5.*"]}


def test_hosts_are_found_by_every_filter_we_use(yard: Yard) -> None:
    run = unique("run")
    fleet = yard.fleet(yard.template(), ["g6.xlarge/a"], 2, TagSpecifications=tags("instance", run=run))
    hosts = set(members(fleet))
    host = yard.instance(members(fleet)[0])
    ours = {"Name": "tag:run", "Values": [run]}
    for name, value in {
        "instance-lifecycle": "spot",
        "instance-type": "g6.*",
        "instance-state-name": "*ing",
        "availability-zone": "us-east-1a",
        "subnet-id": yard.subnets["us-east-1a"],
        "image-id": yard.base,
        "iam-instance-profile.arn": host["IamInstanceProfile"]["Arn"],
        "tag:aws:ec2:fleet-id": fleet["FleetId"],
        "tag-key": "run",
    }.items():
        found = ids(yard.ec2.describe_instances(Filters=[ours, {"Name": name, "Values": [value]}]))
        assert set(found) == hosts, name
    one = [{"Name": "spot-instance-request-id", "Values": [host["SpotInstanceRequestId"]]}]
    assert ids(yard.ec2.describe_instances(Filters=one)) == [host["InstanceId"]]
    assert ids(yard.ec2.describe_instances(Filters=[{"Name": "tag:run", "Values": ["other"]}])) == []


@pytest.mark.parametrize(
    "operation",
    [
        "describe_instances",
        "describe_instance_types",
        "describe_instance_type_offerings",
        "describe_spot_instance_requests",
        "describe_spot_price_history",
        "describe_images",
        "describe_availability_zones",
        "describe_subnets",
    ],
)
def test_an_unknown_filter_is_an_error_and_never_matches_everything(yard: Yard, operation: str) -> None:
    call = getattr(yard.ec2, operation)
    assert error_code(call, Filters=[{"Name": "colour", "Values": ["red"]}]) == "InvalidParameterValue"


def test_pages_count_hosts_and_lose_none(yard: Yard) -> None:
    run = unique("run")
    hosts = yard.run(7, TagSpecifications=tags("instance", run=run)) + yard.run(
        4, TagSpecifications=tags("instance", run=run)
    )
    pages = yard.ec2.get_paginator("describe_instances").paginate(
        Filters=[{"Name": "tag:run", "Values": [run]}], PaginationConfig={"PageSize": 5}
    )
    sizes, found = [], []
    for page in pages:
        sizes.append(len(ids(page)))
        found += ids(page)
    assert sizes == [5, 5, 1]
    assert sorted(found) == sorted(hosts)
    assert error_code(yard.ec2.describe_instances, MaxResults=4) == "InvalidParameterValue"
    both = {"InstanceIds": hosts[:1], "MaxResults": 5}
    assert error_code(yard.ec2.describe_instances, **both) == "InvalidParameterCombination"


def test_instance_types_tell_their_gpus_and_come_in_pages(yard: Yard) -> None:
    pages = list(
        yard.ec2.get_paginator("describe_instance_types").paginate(
            Filters=[G5], PaginationConfig={"PageSize": 5}
        )
    )
    types = {one["InstanceType"]: one for page in pages for one in page["InstanceTypes"]}
    assert len(pages) > 1
    assert all(len(page["InstanceTypes"]) <= 5 for page in pages)
    gpus = types["g5.12xlarge"]["GpuInfo"]["Gpus"][0]
    assert (gpus["Name"], gpus["Count"], gpus["Manufacturer"]) == ("A10G", 4, "NVIDIA")
    assert types["g5.12xlarge"]["VCpuInfo"]["DefaultVCpus"] == 48
    assert error_code(yard.ec2.describe_instance_types, InstanceTypes=["g5.tiny"]) == "InvalidInstanceType"


def test_offerings_say_which_zone_has_a_type(yard: Yard) -> None:
    asked: dict[str, Any] = {"LocationType": "availability-zone"}
    rows = yard.ec2.describe_instance_type_offerings(
        **asked, Filters=[{"Name": "instance-type", "Values": ["g6.xlarge", "g7e.2xlarge"]}]
    )["InstanceTypeOfferings"]
    places = {
        kind: {r["Location"] for r in rows if r["InstanceType"] == kind}
        for kind in ("g6.xlarge", "g7e.2xlarge")
    }
    assert places == {
        "g6.xlarge": {"us-east-1a", "us-east-1b", "us-east-1c"},
        "g7e.2xlarge": {"us-east-1a", "us-east-1c"},
    }


def test_an_unknown_action_is_answered_so_that_clients_can_read_it(yard: Yard) -> None:
    assert error_code(yard.ec2.describe_capacity_block_offerings, CapacityDurationHours=24) == "InvalidAction"
    assert (
        error_code(yard.ec2.describe_instances, InstanceIds=["i-0123456789abcdef0"])
        == "InvalidInstanceID.NotFound"
    )


# ------------------------------------------------------------------------------------------ Service Quotas


def test_a_quota_is_found_by_its_code_and_by_its_name(yard: Yard) -> None:
    quotas = yard.cloud.client("service-quotas")
    found = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-DB2E81BA")["Quota"]
    assert found["QuotaName"] == "Running On-Demand G and VT instances"
    assert found["Value"] > 0
    listed = quotas.get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
    names = {q["QuotaName"] for page in listed for q in page["Quotas"]}
    assert "All G and VT Spot Instance Requests" in names


def test_where_only_a_default_exists_there_is_no_such_quota(yard: Yard) -> None:
    quotas = yard.cloud.client("service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-C4BD4855"}
    assert error_code(quotas.get_service_quota, **asked) == "NoSuchResourceException"
    assert quotas.get_aws_default_service_quota(**asked)["Quota"]["Value"] == 0
    assert (
        error_code(quotas.get_service_quota, ServiceCode="ec2", QuotaCode="L-0") == "NoSuchResourceException"
    )


def test_an_increase_is_asked_for_once(yard: Yard) -> None:
    quotas = yard.cloud.client("service-quotas")
    asked = {"ServiceCode": "ec2", "QuotaCode": "L-7212CCBC", "DesiredValue": 960.0}
    made = quotas.request_service_quota_increase(**asked)["RequestedQuota"]
    assert made["Status"] == "PENDING"
    assert error_code(quotas.request_service_quota_increase, **asked) == "ResourceAlreadyExistsException"
    history = quotas.list_requested_service_quota_change_history_by_quota(
        ServiceCode="ec2", QuotaCode="L-7212CCBC"
    )
    assert [request["Id"] for request in history["RequestedQuotas"]] == [made["Id"]]


def ids(answer: dict[str, Any]) -> list[str]:
    return [one["InstanceId"] for group in answer["Reservations"] for one in group["Instances"]]
