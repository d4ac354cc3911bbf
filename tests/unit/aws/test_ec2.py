"""Answers of EC2 about instances that it does not show yet, or no longer."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lambdas.aws.ec2 import fleet, images, instances
from lambdas.core.capacity.plan import Part
from tests.support.recorded import Host, Recorded, answering
from tests.unit.core.builders import candidate
from trainyard.core.model.errors import AccessDenied, Infrastructure, ServiceUnavailable
from trainyard.protocol.cluster import Gang
from trainyard.protocol.plan import Candidate, Priced


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with answering(Recorded(hosts={name: Host(name) for name in ("i-1", "i-2", "i-3")})) as made:
        yield made


def states(account: Recorded) -> dict[str, str]:
    return {name: host.state for name, host in account.hosts.items()}


def test_a_forgotten_host_keeps_no_other_from_being_stopped_ended_or_tagged(account: Recorded) -> None:
    assert instances.stop(["i-1", "i-gone"]) == {}
    assert instances.terminate(["i-2", "i-gone"]) == {}
    instances.tag({"yes": ["i-3", "i-gone"]}, "trainyard:hold")
    assert states(account) == {"i-1": "stopping", "i-2": "shutting-down", "i-3": "running"}
    assert account.hosts["i-3"].tags == {"trainyard:hold": "yes"}


@pytest.mark.parametrize("act", [instances.stop, instances.terminate])
def test_a_new_host_that_ec2_does_not_show_yet_is_none_that_it_has_forgotten(
    account: Recorded, act: Callable[..., dict[str, instances.Refusal]]
) -> None:
    refused = act(["i-1", "i-new"], new=["i-new"])
    assert set(refused) == {"i-new"}
    assert states(account)["i-1"] != "running"
    with pytest.raises(ServiceUnavailable, match="does not show it or its tags yet"):
        instances.check_refusals(refused)


@pytest.mark.parametrize("operation", ["StopInstances", "TerminateInstances"])
def test_a_missing_permission_is_one_though_a_host_is_forgotten(account: Recorded, operation: str) -> None:
    account.broken = {operation: "UnauthorizedOperation"}
    act = instances.stop if operation == "StopInstances" else instances.terminate
    with pytest.raises(AccessDenied, match=f"ec2:{operation}"):
        act(["i-1", "i-gone"])


def test_who_may_not_look_is_told_what_it_may_not_do(account: Recorded) -> None:
    account.broken = {"CreateTags": "UnauthorizedOperation", "DescribeInstances": "UnauthorizedOperation"}
    with pytest.raises(AccessDenied, match="ec2:CreateTags"):
        instances.tag({"yes": ["i-1"]}, "trainyard:hold")


def test_an_image_that_ec2_does_not_show_yet_is_retired_all_the_same(account: Recorded) -> None:
    account.images, account.shown_late = {"ami-1": "pending"}, 2
    images.retire("ami-1")
    assert account.images == {}


def test_an_image_that_is_gone_is_retired(account: Recorded) -> None:
    account.shown_late = 99
    images.retire("ami-1")
    assert account.calls["ec2:DeregisterImage"] == 4


def test_an_image_whose_name_is_taken_and_that_is_not_shown_yet_is_asked_for_again(account: Recorded) -> None:
    account.broken = {"CreateImage": "InvalidAMIName.Duplicate"}
    with pytest.raises(ServiceUnavailable, match="does not show yet"):
        images.create("i-1", "digits-1", description="d", tags={})
    account.images = {"ami-1": "pending"}
    assert images.create("i-1", "digits-1", description="d", tags={}) == "ami-1"


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "SomeNewTrouble"])
def test_what_ec2_cannot_do_now_is_asked_again(account: Recorded, code: str) -> None:
    account.broken = {"StopInstances": code}
    refused = instances.stop(["i-1"])
    with pytest.raises(ServiceUnavailable if code == "RequestLimitExceeded" else Infrastructure) as told:
        instances.check_refusals(refused)
    assert isinstance(told.value, ServiceUnavailable) is (code == "RequestLimitExceeded")
    assert code in told.value.reason


def test_a_launch_that_is_throttled_is_no_pools_refusal(account: Recorded) -> None:
    account.broken = {"CreateFleet": "RequestLimitExceeded"}
    part = Part(Gang.MAIN, 1, (Priced("g6.xlarge", 0.2, 0.8),), 1)
    with pytest.raises(ServiceUnavailable, match="RequestLimitExceeded"):
        fleet.launch(
            part, [candidate()], fleet.Template("lt-1", "1"), image="ami-1", client_token="t", tags={}
        )


def test_a_launch_without_ec2s_own_role_says_how_to_make_it(account: Recorded) -> None:
    account.broken = {"CreateFleet": "AuthFailure.ServiceLinkedRoleCreationNotPermitted"}
    part = Part(Gang.MAIN, 1, (Priced("g6.xlarge", 0.2, 0.8),), 1)
    with pytest.raises(AccessDenied, match="aws iam create-service-linked-role --aws-service-name spot"):
        fleet.launch(
            part, [candidate()], fleet.Template("lt-1", "1"), image="ami-1", client_token="t", tags={}
        )


class Fleets:
    """EC2 with one answer to CreateFleet; it keeps the request."""

    def __init__(self, **answer: Any) -> None:
        self.answer, self.request = answer, dict[str, Any]()

    def create_fleet(self, **request: Any) -> dict[str, Any]:
        self.request = request
        return self.answer


POOLS = (
    candidate("g6.xlarge", "us-east-1a"),
    candidate("g5.xlarge", "us-east-1a"),
    candidate("g6.xlarge", "us-east-1b"),
)


def asked_at_once(monkeypatch: pytest.MonkeyPatch, ec2: Fleets) -> fleet.Launched | fleet.Refusals:
    monkeypatch.setattr(fleet, "client", lambda *_, **__: ec2)
    part = Part(Gang.MAIN, 2, tuple(each for pool in POOLS for each in pool.choices(Gang.MAIN)), 2)
    return fleet.launch(part, POOLS, fleet.Template("lt-1", "1"), image="ami-1", client_token="t", tags={})


def override(pool: Candidate) -> dict[str, Any]:
    return {"LaunchTemplateAndOverrides": {"Overrides": {"InstanceType": pool.type, "SubnetId": pool.subnet}}}


def test_one_request_names_each_pool_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ec2 = Fleets()
    asked_at_once(monkeypatch, ec2)
    ((config,), options) = ec2.request["LaunchTemplateConfigs"], ec2.request["SpotOptions"]
    named = [(each["InstanceType"], each["SubnetId"]) for each in config["Overrides"]]
    assert named == [(pool.type, pool.subnet) for pool in POOLS]
    assert options == {
        "AllocationStrategy": "capacity-optimized",
        "SingleInstanceType": True,
        "SingleAvailabilityZone": True,
        "MinTargetCapacity": 2,
    }


@pytest.mark.parametrize("pool", POOLS)
def test_the_hosts_are_in_the_pool_that_ec2_took(monkeypatch: pytest.MonkeyPatch, pool: Candidate) -> None:
    group = {"InstanceIds": ["i-1", "i-2"], "InstanceType": pool.type, **override(pool)}
    answer = asked_at_once(monkeypatch, Fleets(Instances=[group], Errors=[]))
    assert answer == fleet.Launched(("i-1", "i-2"), pool.type, pool)


def test_errors_beside_hosts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    group = {"InstanceIds": ["i-1", "i-2"], "InstanceType": POOLS[0].type, **override(POOLS[0])}
    full = {"ErrorCode": "InsufficientInstanceCapacity", "ErrorMessage": "full", **override(POOLS[1])}
    answer = asked_at_once(monkeypatch, Fleets(Instances=[group], Errors=[full]))
    assert answer == fleet.Launched(("i-1", "i-2"), POOLS[0].type, POOLS[0])


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            "Value (mine) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            "throttled",
        ),
        ("Value (mine) for parameter SubnetId is invalid", "configuration"),
    ],
)
def test_a_profile_of_seconds_ago_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, message: str, kind: str
) -> None:
    errors = [{"ErrorCode": "InvalidParameterValue", "ErrorMessage": message}]
    answer = asked_at_once(monkeypatch, Fleets(Instances=[], Errors=errors))
    assert not isinstance(answer, fleet.Launched)
    assert {no.kind for no in answer} == {kind}


def test_each_pool_has_its_own_refusal_and_none_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [
        {"ErrorCode": "MaxSpotInstanceCountExceeded", "ErrorMessage": "full", **override(POOLS[2])},
        {"ErrorCode": "Unsupported", "ErrorMessage": "never", **override(POOLS[0])},
        {"ErrorCode": "InsufficientInstanceCapacity", "ErrorMessage": "no room", **override(POOLS[0])},
    ]
    answer = asked_at_once(monkeypatch, Fleets(Instances=[], Errors=errors))
    assert not isinstance(answer, fleet.Launched)
    assert [no.code for no in answer] == [
        "Unsupported",
        "UnfulfillableCapacity",
        "MaxSpotInstanceCountExceeded",
    ]
