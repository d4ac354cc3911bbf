"""Checks that only read, and cost nothing."""

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from lambdas.aws.pricing import LINUX, SERVED_IN
from scripts.aws_check.check import Account, Check, Finding, Stage, expect
from stacks.constructs.packages import ROOT

RETIRED = "p2.xlarge"
IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
PLACEHOLDER = re.compile(r"\$\{(\w+)\}")


def offerings(account: Account) -> Finding:
    chosen = [{"Name": "instance-type", "Values": [RETIRED]}]
    found = account.call("ec2", "describe_instance_type_offerings", Filters=chosen)["InstanceTypeOfferings"]
    prices = account.call(
        "ec2",
        "describe_spot_price_history",
        InstanceTypes=[RETIRED],
        StartTime=datetime.now(UTC) - timedelta(hours=1),
    )["SpotPriceHistory"]
    return expect(not found and not prices, f"{len(found)} offerings and {len(prices)} prices of {RETIRED}")


def unknown_type(account: Account) -> Finding:
    code = account.refusal("ec2", "describe_instance_types", InstanceTypes=["g99.xlarge"])
    return expect(code == "InvalidInstanceType", f"DescribeInstanceTypes of g99.xlarge: {code or 'accepted'}")


def one_price(account: Account) -> Finding:
    wanted = {"regionCode": account.region, "instanceType": "g5.xlarge", **LINUX}
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    found = account.call("pricing", "get_products", SERVED_IN, ServiceCode="AmazonEC2", Filters=filters)[
        "PriceList"
    ]
    return expect(len(found) == 1, f"{len(found)} products for g5.xlarge in {account.region}")


def unknown_service(account: Account) -> Finding:
    code = account.refusal("pricing", "get_products", SERVED_IN, ServiceCode="NoSuchService")
    known = code in ("NotFoundException", "InvalidParameterException")
    return expect(known, f"GetProducts of NoSuchService: {code or 'accepted'}")


def public_parameter(account: Account) -> Finding:
    value = account.call("ssm", "get_parameter", Name=IMAGE)["Parameter"]["Value"]
    return expect(value.startswith("ami-"), f"the parameter of Amazon Linux 2023 is {value[:4]}...")


def definitions(account: Account) -> Finding:
    """Validate every state machine of the product, with an ARN in the place of each function."""
    arn = f"arn:aws:lambda:{account.region}:111122223333:function:check"
    wrong = []
    for path in sorted((ROOT / "lambdas/workflows").glob("*.asl.json")):
        text = PLACEHOLDER.sub(lambda found: "aws" if found[1] == "Partition" else arn, path.read_text())
        answer = account.call(
            "stepfunctions", "validate_state_machine_definition", definition=json.dumps(json.loads(text))
        )
        if answer["result"] != "OK":
            wrong.append(f"{path.name}: {answer['diagnostics'][0]['message']}")
    return expect(not wrong, "; ".join(wrong) or "AWS accepts every definition")


def patterns(account: Account) -> Finding:
    event = {
        "id": "1", "account": "111122223333", "source": "aws.ec2", "time": "2026-11-29T00:00:00Z",
        "region": account.region, "resources": [], "detail-type": "x", "detail": {"name": "a.b.c"},
    }  # fmt: skip
    cases = {
        '{"detail": {"name": [{"wildcard": "a.*.c"}]}}': True,
        '{"source": [{"prefix": "aws.s3"}]}': False,
    }
    wrong = [
        pattern
        for pattern, matches in cases.items()
        if account.call("events", "test_event_pattern", EventPattern=pattern, Event=json.dumps(event))[
            "Result"
        ]
        is not matches
    ]
    return expect(not wrong, "; ".join(wrong) or f"{len(cases)} patterns match as expected")


def clock(account: Account) -> Finding:
    answer = account.call("sts", "get_caller_identity")
    date = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    seconds = abs((datetime.now(UTC) - date).total_seconds())
    return expect(seconds < 300, f"this computer's clock is off by {seconds:.0f} s")


CHECKS = (
    Check("clock", "The clock of this computer is right within five minutes.", Stage.FREE, clock),
    Check(
        "retired-types",
        "DescribeInstanceTypeOfferings and DescribeSpotPriceHistory return nothing, and no error, for retired types.",
        Stage.FREE,
        offerings,
    ),
    Check("unknown-type", "An unknown type is refused as InvalidInstanceType.", Stage.FREE, unknown_type),
    Check("one-price", "The price list narrows a type to one price.", Stage.FREE, one_price),
    Check(
        "unknown-service",
        "GetProducts refuses an unknown service as NotFoundException or InvalidParameterException.",
        Stage.FREE,
        unknown_service,
    ),
    Check("public-parameter", "The public parameters of Amazon Linux exist.", Stage.FREE, public_parameter),
    Check("definitions", "Step Functions accepts the product's state machines.", Stage.FREE, definitions),
    Check(
        "patterns", "EventBridge matches wildcards and prefixes as the product does.", Stage.FREE, patterns
    ),
)
