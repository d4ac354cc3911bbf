"""The requirements of a yard that an account and region do not meet, checked before anything costs money."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trainyard.client.admin import keys
from trainyard.client.admin.network_checks import check_way_out, check_way_to_s3
from trainyard.client.admin.requirements import Need, Needs, Row, Verdict
from trainyard.client.errors import Denied, NoRegion
from trainyard.client.session import Session
from trainyard.core.model.instance_types import raise_quota_command
from trainyard.core.model.yard.data_buckets import DataBucket
from trainyard.protocol.predictions import function_of

AWS_KEY = "alias/aws/ebs"
BOOTSTRAP = "CDKToolkit"
CONCURRENCY = "concurrency of functions"
LEAST_UNRESERVED = 100
"""The concurrency that Lambda keeps for functions without a reservation
(docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html)."""
BUDGET = "budget"
"""The subject of the row about the monthly budget."""
SERVICES = ("spot.amazonaws.com", "ec2fleet.amazonaws.com")
"""The services with roles that EC2 assumes. AWS creates these roles at their first use by a permitted user."""
VPCS_BY_DEFAULT = 5
"""docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html: VPCs per Region."""


@dataclass(frozen=True)
class Preflight:
    """All rows, in the order of the checks."""

    rows: tuple[Row, ...]

    @property
    def can_deploy(self) -> bool:
        return not any(row.verdict is Verdict.MISSING for row in self.rows)

    @property
    def is_ready(self) -> bool:
        return all(row.verdict is Verdict.READY for row in self.rows)


def look(session: Session, needs: Needs) -> Preflight:
    """Check all requirements of a yard with read-only calls. Raise NoCredentials, NoRegion or NoAnswer if nothing can
    be checked. A requirement that the credentials may not read has a row that states this."""
    looks: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
        ("identity", lambda: [_identity(session)]),
        ("region", lambda: [_region(session)]),
        ("instance types", lambda: [_find_offered(session, needs.types)]),
        ("quotas", lambda: list(_quotas(session, needs.quotas))),
        (CONCURRENCY, lambda: list(_concurrency(session, needs))),
        ("service-linked roles", lambda: [_service_linked_roles(session)]),
        ("CDK bootstrap", lambda: [_bootstrap(session)]),
        ("KMS key", lambda: list(_key(session, needs.key))),
        ("EBS encryption", lambda: [encryption(session, needs.key)]),
        ("VPCs", lambda: [_vpcs(session, 0 if needs.network.vpc else 1)]),
        ("way out of the hosts", lambda: [check_way_out(session, needs.network)]),
        ("way to S3", lambda: [check_way_to_s3(session, needs.network)]),
        ("data buckets", lambda: [_data_bucket(session, each) for each in needs.data_buckets]),
        (BUDGET, lambda: [_budget(needs.monthly_dollars)]),
        ("notices", lambda: [_notices(needs.notify)]),
    )
    rows: list[Row] = []
    for subject, ask in looks:
        try:
            rows += ask()
        except Denied as denied:
            rows.append(Row(subject, denied.what, "permission to read it", Verdict.UNKNOWN, denied.next_step))
    return Preflight(tuple(rows))


def find_account(session: Session) -> str:
    """Return the account that a yard would be deployed to. Raise NoRegion, NoCredentials, NoAnswer or Denied."""
    if not session.region:
        raise NoRegion(
            "no region is set",
            "a yard is in one region, which must be set; nothing was downloaded or changed",
            "export AWS_REGION=us-east-1, or aws configure",
        )
    return str(session.client("sts").get_caller_identity()["Account"])


def request_increases(session: Session, seen: Preflight) -> list[Row]:
    """Request every quota that is too small and not requested yet, and return its rows. AWS answers within minutes to
    days; `look` shows the state of the request."""
    asked = [row for row in seen.rows if row.quota and row.verdict is Verdict.SHORT]
    for row in asked:
        session.client("service-quotas").request_service_quota_increase(
            ServiceCode="ec2", QuotaCode=row.quota, DesiredValue=float(row.desired)
        )
    return asked


def _identity(session: Session) -> Row:
    who = session.client("sts").get_caller_identity()
    is_root = who["Arn"].endswith(":root")
    advice = "sign in as a role or a user: AWS advises against the root user" if is_root else ""
    return Row(
        "identity", f"{who['Arn']} of {who['Account']}", "an identity that may deploy", Verdict.READY, advice
    )


def _region(session: Session) -> Row:
    asked = session.client("ec2").describe_regions(AllRegions=True)["Regions"]
    known = {region["RegionName"]: region.get("OptInStatus", "opt-in-not-required") for region in asked}
    name, status = session.region, known.get(session.region)
    if status is None:
        return Row(
            "region",
            f"{name} is not a region of EC2",
            "a region of EC2",
            Verdict.MISSING,
            "export AWS_REGION=...",
        )
    if status == "not-opted-in":
        enable = f"aws account enable-region --region-name {name}"
        return Row("region", f"{name}, which the account has not enabled", "enabled", Verdict.MISSING, enable)
    return Row("region", name, "enabled", Verdict.READY)


def _find_offered(session: Session, types: Sequence[str]) -> Row:
    pages = (
        session.client("ec2")
        .get_paginator("describe_instance_type_offerings")
        .paginate(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": list(types)}]
        )
    )
    zones: dict[str, list[str]] = {}
    for page in pages:
        for offering in page["InstanceTypeOfferings"]:
            zones.setdefault(offering["Location"], []).append(offering["InstanceType"])
    needed = f"one of {', '.join(types)}"
    if not zones:
        advice = "choose another region, or other instance_types in examples/images/gpu.yaml and in jobs"
        return Row("instance types", f"none in {session.region}", needed, Verdict.MISSING, advice)
    found = "; ".join(f"{zone}: {', '.join(sorted(kinds))}" for zone, kinds in sorted(zones.items()))
    return Row("instance types", found, needed, Verdict.READY)


def _quotas(session: Session, needs: Sequence[Need]) -> Iterator[Row]:
    for need in needs:
        value, requested = _quota(session, need.quota), _describe_request(session, need.quota)
        found = f"{value:g} vCPUs{requested}" if value is not None else "AWS has no such quota here"
        subject, needed = f"{need.name} ({need.quota})", f"{need.vcpus} vCPUs for {need.purpose}"
        if value is None or value >= need.vcpus:
            yield Row(subject, found, needed, Verdict.READY, quota=need.quota)
            continue
        verdict = Verdict.REQUESTED if requested else Verdict.SHORT
        step = "" if requested else raise_quota_command(need.quota, need.vcpus, session.region)
        yield Row(subject, found, needed, verdict, step, quota=need.quota, desired=need.vcpus)


def _quota(session: Session, code: str) -> float | None:
    """Return the applied value, or AWS's default."""
    client = session.client("service-quotas")
    for ask in (client.get_service_quota, client.get_aws_default_service_quota):
        try:
            return float(ask(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
        except client.exceptions.NoSuchResourceException:
            continue
    return None


def _describe_request(session: Session, code: str) -> str:
    """Describe the newest request for this quota. Return an empty text without a request, or if it was granted."""
    client = session.client("service-quotas")
    pages = client.get_paginator("list_requested_service_quota_change_history_by_quota").paginate(
        ServiceCode="ec2", QuotaCode=code
    )
    requests: list[dict[str, Any]] = [request for page in pages for request in page["RequestedQuotas"]]
    if not requests:
        return ""
    newest = max(requests, key=lambda request: request["Created"])
    if newest["Status"] not in ("PENDING", "CASE_OPENED"):
        return ""
    return f"; {newest['DesiredValue']:g} asked for on {newest['Created']:%Y-%m-%d}, {newest['Status']}"


def _concurrency(session: Session, needs: Needs) -> Iterator[Row]:
    """Yield whether the account can reserve the concurrency of the function for predictions. New accounts cannot."""
    most, client = needs.most_predictions_at_once, session.client("lambda")
    if not most:
        return
    limit = client.get_account_settings()["AccountLimit"]
    try:
        found = client.get_function_concurrency(FunctionName=function_of(needs.yard))
    except client.exceptions.ResourceNotFoundException:
        found = {}
    own = int(found.get("ReservedConcurrentExecutions", 0))
    free = int(limit["UnreservedConcurrentExecutions"]) + own - LEAST_UNRESERVED
    shown = f"{limit['ConcurrentExecutions']} in all, and {max(free, 0)} can be reserved"
    needed = f"{most} reserved for predictions"
    if free >= most:
        yield Row(CONCURRENCY, shown, needed, Verdict.READY)
        return
    yield Row(
        CONCURRENCY,
        shown,
        needed,
        Verdict.MISSING,
        f"deploy with -c most_predictions_at_once={max(free, 0)}, or ask AWS for more: aws service-quotas "
        f"request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value 1000 "
        f"--region {session.region}",
    )


def _service_linked_roles(session: Session) -> Row:
    found, missing = [], []
    for service in SERVICES:
        roles = session.client("iam").list_roles(PathPrefix=f"/aws-service-role/{service}/")["Roles"]
        if roles:
            found.append(str(roles[0]["RoleName"]))
        else:
            missing.append(service)
    step = f"the deployment makes the roles of {' and '.join(missing)}" if missing else ""
    needed = f"the roles of {' and '.join(SERVICES)}"
    return Row("service-linked roles", ", ".join(found) or "none", needed, Verdict.READY, step)


def _bootstrap(session: Session) -> Row:
    client = session.client("cloudformation")
    try:
        (stack,) = client.describe_stacks(StackName=BOOTSTRAP)["Stacks"]
    except client.exceptions.ClientError as error:
        if "does not exist" not in str(error):
            raise
        return Row("CDK bootstrap", "none", BOOTSTRAP, Verdict.READY, "the deployment makes it")
    status = str(stack["StackStatus"])
    if status.endswith("_COMPLETE") and not status.startswith(("DELETE", "ROLLBACK")):
        return Row("CDK bootstrap", status, BOOTSTRAP, Verdict.READY)
    step = f"aws cloudformation delete-stack --stack-name {BOOTSTRAP}, then deploy again"
    return Row("CDK bootstrap", status, BOOTSTRAP, Verdict.MISSING, step)


def _key(session: Session, key: str) -> Iterator[Row]:
    """Yield whether a yard can be deployed with the key, and whether its alarms can send notifications."""
    if not key:
        return
    if wrong := keys.state(session, key):
        yield Row("KMS key", wrong, key, Verdict.MISSING, "deploy with another -c kms_key=..., or enable it")
        return
    missing = list(keys.missing_statements(session, key))
    if not missing:
        yield Row("KMS key", "enabled, with a sufficient policy", key, Verdict.READY)
    for who, statement in missing:
        verdict = Verdict.SHORT if who == keys.WHO_ALARMS else Verdict.MISSING
        step = f"add to its policy (aws kms put-key-policy): {json.dumps(statement)}"
        yield Row("KMS key", f"its policy does not allow {who} to use it", key, verdict, step)


def encryption(session: Session, key: str = "") -> Row:
    """Check whether new volumes are encrypted with a key that the yard's roles may not use
    (docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html)."""
    ec2 = session.client("ec2")
    if not ec2.get_ebs_encryption_by_default()["EbsEncryptionByDefault"]:
        return Row("EBS encryption", "off by default", "any", Verdict.READY)
    default = str(ec2.get_ebs_default_kms_key_id()["KmsKeyId"])
    if key or default.endswith(AWS_KEY):
        return Row("EBS encryption", f"by default, with {default}", key or "any", Verdict.READY)
    arn = default
    if ":key/" not in default:
        arn = f"$(aws kms describe-key --key-id {default} --query KeyMetadata.Arn --output text)"
    return Row(
        "EBS encryption",
        f"by default, with the customer key {default}",
        "a key that the yard's roles may use",
        Verdict.SHORT,
        f"deploy with -c kms_key={arn}; otherwise launches fail with Client.InternalError",
    )


def _vpcs(session: Session, more: int) -> Row:
    pages = session.client("ec2").get_paginator("describe_vpcs").paginate()
    count = sum(len(page["Vpcs"]) for page in pages)
    found, needed = f"{count} in {session.region}", f"{more} more; AWS allows {VPCS_BY_DEFAULT} unless raised"
    if count + more <= VPCS_BY_DEFAULT:
        return Row("VPCs", found, needed, Verdict.READY)
    step = "aws service-quotas request-service-quota-increase --service-code vpc --quota-code L-F678F1CE ..."
    return Row("VPCs", found, needed, Verdict.SHORT, f"{step} (not required if the yard is already deployed)")


def _data_bucket(session: Session, bucket: DataBucket) -> Row:
    """Check a data bucket. The yard may be able to read a bucket that these credentials may not."""
    subject, needed = f"data bucket {bucket.uri}", f"a bucket in {session.region} that the yard may read"
    client = session.client("s3")
    try:
        found = client.list_objects_v2(Bucket=bucket.name, Prefix=bucket.prefix, MaxKeys=1).get("KeyCount")
    except client.exceptions.NoSuchBucket:
        step = "create it, or remove it from the setting data_buckets and deploy again"
        return Row(subject, "it does not exist", needed, Verdict.SHORT, step)
    there = client.head_bucket(Bucket=bucket.name).get("BucketRegion") or session.region
    if there != session.region:
        step = f"copy it to a bucket in {session.region} (aws s3 sync), and name that one"
        return Row(subject, f"it is in {there}", needed, Verdict.SHORT, step)
    if not found:
        return Row(subject, "it is empty", needed, Verdict.SHORT, f"aws s3 sync FOLDER {bucket.uri}")
    return Row(subject, "it exists and is not empty", needed, Verdict.READY)


def _notices(address: str) -> Row:
    if address:
        return Row("notices", f"mailed to {address}", "an address, if you want them", Verdict.READY)
    step = "deploy with -c notify=you@example.com; otherwise alarms and failed bakes send no notification"
    return Row("notices", "not sent", "an address, if you want them", Verdict.READY, step)


def _budget(dollars: float) -> Row:
    if dollars:
        return Row(BUDGET, f"${dollars:g} a month", "a budget", Verdict.READY)
    return Row(BUDGET, "none", "a budget (optional)", Verdict.READY, "deploy with -c monthly_dollars=500")
