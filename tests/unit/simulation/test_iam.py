"""Permissions of roles in the simulated account, and the errors of denied requests."""

from typing import Any

import pytest

from simulation.aws.endpoint.api import Caller, Check, ServiceError
from simulation.aws.iam import Iam, Verdict, user_id

ROLE = "arn:aws:iam::123456789012:role/trainyard-dev-host"
CALLER = Caller("train-launch", ROLE)
BUCKET, TOPIC = "arn:aws:s3:::jobs", "arn:aws:sns:us-east-1:123456789012:notices"
QUEUE, RULE = (
    "arn:aws:sqs:us-east-1:123456789012:letters",
    "arn:aws:events:us-east-1:123456789012:rule/uploads",
)


def allow(action: str | list[str], resource: str | list[str] = "*", **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def deny(action: str, resource: str = "*", **more: Any) -> dict[str, Any]:
    return {**allow(action, resource, **more), "Effect": "Deny"}


def iam(*statements: dict[str, Any], **resources: Any) -> Iam:
    policies = {
        {"bucket": BUCKET, "topic": TOPIC, "queue": QUEUE}[name]: {"Statement": policy}
        for name, policy in resources.items()
    }
    return Iam({ROLE: [{"Version": "2012-10-17", "Statement": list(statements)}]}, resources=policies)


def test_an_action_without_a_policy_is_denied() -> None:
    asked = [Check("s3:GetObject", f"{BUCKET}/a"), Check("s3:PutObject", f"{BUCKET}/a")]
    assert iam(allow("s3:Get*", f"{BUCKET}/*")).first_denied(CALLER, asked) == asked[1]
    assert iam(allow("s3:*", f"{BUCKET}/?")).first_denied(CALLER, asked) is None
    assert iam(allow("s3:*", f"{BUCKET}/?")).first_denied(CALLER, [Check("s3:GetObject", f"{BUCKET}/ab")])


def test_a_deny_is_stronger_than_any_allow() -> None:
    of_hosts = iam(allow("ssm:*"), deny("ssm:GetParameter"))
    assert of_hosts.verdict(CALLER, Check("ssm:GetParameter", "*")) is Verdict.DENIED
    assert of_hosts.verdict(CALLER, Check("ssm:UpdateInstanceInformation", "*")) is Verdict.ALLOWED


@pytest.mark.parametrize(
    ("condition", "context", "allowed"),
    [
        ({"StringEquals": {"aws:ResourceTag/yard": "a"}}, {"aws:resourcetag/yard": "a"}, True),
        ({"StringEquals": {"aws:ResourceTag/yard": "a"}}, {"aws:resourcetag/yard": "b"}, False),
        ({"StringEquals": {"aws:ResourceTag/yard": "a"}}, {}, False),
        ({"StringLikeIfExists": {"s3:prefix": ["runs/*"]}}, {}, True),
        ({"StringLikeIfExists": {"s3:prefix": ["runs/*"]}}, {"s3:prefix": "runs/1/"}, True),
        ({"StringLikeIfExists": {"s3:prefix": ["runs/*"]}}, {"s3:prefix": "jobs/"}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["hold"]}}, {"aws:tagkeys": ["hold"]}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["hold"]}}, {"aws:tagkeys": ["hold", "x"]}, False),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": ["hold"]}}, {"aws:tagkeys": ["hold", "x"]}, True),
        ({"Null": {"aws:RequestTag/yard": "true"}}, {}, True),
        ({"Null": {"aws:RequestTag/yard": "true"}}, {"aws:requesttag/yard": "a"}, False),
        (
            {"StringEquals": {"ec2:CreateAction": ["CreateFleet"]}},
            {"ec2:createaction": "RunInstances"},
            False,
        ),
    ],
)
def test_conditions(condition: dict[str, Any], context: dict[str, Any], allowed: bool) -> None:
    some = iam(allow("ec2:CreateTags", Condition=condition))
    assert some.may(CALLER, Check("ec2:CreateTags", "*", context)) is allowed


def test_everything_but() -> None:
    some = iam({"Effect": "Allow", "NotAction": "iam:*", "NotResource": f"{BUCKET}/secret"})
    assert some.may(CALLER, Check("s3:GetObject", f"{BUCKET}/open"))
    assert not some.may(CALLER, Check("s3:GetObject", f"{BUCKET}/secret"))
    assert not some.may(CALLER, Check("iam:PassRole", "*"))


def test_a_bucket_refuses_what_does_not_come_over_tls() -> None:
    plain = deny("s3:*", f"{BUCKET}/*", Principal={"AWS": "*"})
    plain["Condition"] = {"Bool": {"aws:SecureTransport": "false"}}
    some = iam(allow("s3:*"), bucket=[plain])
    check = Check("s3:GetObject", f"{BUCKET}/a", {"aws:securetransport": "false"})
    assert some.verdict(CALLER, check) is Verdict.DENIED_BY_RESOURCE
    assert str(some.denial(check, CALLER, "s3")).endswith("with an explicit deny in a resource-based policy")
    assert some.may(CALLER, Check("s3:GetObject", f"{BUCKET}/a", {"aws:securetransport": "true"}))


def test_a_topic_lets_in_a_role_that_it_names() -> None:
    some = iam(topic=[allow("sns:Publish", TOPIC, Principal={"AWS": ROLE})])
    assert some.may(CALLER, Check("sns:Publish", TOPIC))
    assert not some.may(CALLER, Check("sns:Subscribe", TOPIC))


def test_a_queue_lets_in_the_service_of_its_rule() -> None:
    source = {"ArnEquals": {"aws:SourceArn": RULE}}
    sends = allow("sqs:SendMessage", QUEUE, Principal={"Service": "events.amazonaws.com"}, Condition=source)
    some = iam(queue=[sends])
    letter = Check("sqs:SendMessage", QUEUE, {"aws:sourcearn": RULE})
    assert some.allows_service("events.amazonaws.com", letter)
    assert not some.allows_service("sns.amazonaws.com", letter)
    assert not some.allows_service(
        "events.amazonaws.com", Check("sqs:SendMessage", QUEUE, {"aws:sourcearn": "x"})
    )
    assert not some.may(CALLER, letter)


def test_the_trust_policy_decides_who_may_assume_a_role() -> None:
    other = f"{ROLE}-2"
    some = Iam({ROLE: []}, trusts={ROLE: {"Statement": [allow("sts:AssumeRole", Principal={"AWS": other})]}})
    assert some.trusts_role(ROLE, other)
    assert not some.trusts_role(ROLE, ROLE)
    assert not some.trusts_role(other, other)


WHO = "User: arn:aws:sts::123456789012:assumed-role/trainyard-dev-host/train-launch is not authorized to perform: x:Do"
WHY = "because no identity-based policy allows the x:Do action"


@pytest.mark.parametrize(
    ("service", "code", "status", "opening", "resource"),
    [
        ("ec2", "UnauthorizedOperation", 403, "You are not authorized to perform this operation. ", "thing"),
        ("s3", "AccessDenied", 403, "", '"thing"'),
        ("sns", "AuthorizationError", 403, "", "thing"),
        ("dynamodb", "AccessDeniedException", 400, "", "thing"),
    ],
)
def test_each_service_refuses_in_its_own_words(
    service: str, code: str, status: int, opening: str, resource: str
) -> None:
    refusal = iam().denial(Check("x:Do", "thing"), CALLER, service)
    assert (refusal.code, refusal.status) == (code, status)
    assert refusal.message == f"{opening}{WHO} on resource: {resource} {WHY}"


def test_the_person_whose_account_it_is_may_do_all() -> None:
    assert (
        iam(deny("*")).first_denied(Caller("person", "root"), [Check("ec2:TerminateInstances", "*")]) is None
    )


@pytest.mark.parametrize(
    "statement",
    [
        allow("s3:GetObject", "arn:aws:s3:::jobs/${aws:username}"),
        allow("s3:GetObject", Condition={"StringLike": {"s3:prefix": "${aws:userid}/${s3:prefix}"}}),
        allow("s3:GetObject", Condition={"DateLessThan": {"aws:CurrentTime": "2030-01-01T00:00:00Z"}}),
        allow("s3:GetObject", Condition={"StringEqual": {"s3:prefix": "a"}}),
        {"Effect": "Allow", "Action": "s3:*", "Resource": {"Fn::GetAtt": ["Bucket", "Arn"]}},
        {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "NotPrincipal": "*"},
    ],
)
def test_a_policy_that_would_be_misread_is_refused(statement: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match="NotSimulated"):
        iam(statement)


def test_an_unknown_role_is_no_role_without_permissions() -> None:
    with pytest.raises(ServiceError, match="NotSimulated"):
        iam().first_denied(
            Caller("x", "arn:aws:iam::123456789012:role/other"), [Check("s3:GetObject", BUCKET)]
        )


def test_a_role_that_many_share_lets_each_speak_for_itself() -> None:
    """Two hosts get different results for the same check."""
    own = iam(allow("events:PutEvents", Condition={"StringEquals": {"events:source": "host/${aws:userid}"}}))
    one, other = (Caller("host", ROLE, instance) for instance in ("i-1", "i-2"))
    said = Check("events:PutEvents", "*", {"events:source": f"host/{user_id(one)}"})
    assert user_id(one).endswith(":i-1")
    assert [own.may(each, said) for each in (one, other, one)] == [True, False, True]
