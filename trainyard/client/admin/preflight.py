"""What an account and region lack for a yard, asked before anything costs money there."""

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

AWS_KEY = "alias/aws/ebs"
BOOTSTRAP = "CDKToolkit"
BUDGET = "budget"
"""The subject of the row about the month's money."""
SERVICES = ("spot.amazonaws.com", "ec2fleet.amazonaws.com")
"""EC2 acts through roles of these, which AWS makes at the first use by somebody who may."""
VPCS_BY_DEFAULT = 5
"""docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html: VPCs per Region."""


@dataclass(frozen=True)
class Preflight:
    """All rows, in the order in which they were looked at."""

    rows: tuple[Row, ...]

    @property
    def can_deploy(self) -> bool:
        return not any(row.verdict is Verdict.MISSING for row in self.rows)

    @property
    def is_ready(self) -> bool:
        return all(row.verdict is Verdict.READY for row in self.rows)


def look(session: Session, needs: Needs) -> Preflight:
    """Ask AWS about everything a yard needs; reads only. Raises NoCredentials, NoRegion, NoAnswer: nothing can be
    asked then. What the credentials may not read is a row that says so."""
    looks: tuple[tuple[str, Callable[[], list[Row]]], ...] = (
        ("identity", lambda: [_identity(session)]),
        ("region", lambda: [_region(session)]),
        ("instance types", lambda: [_offered(session, needs.types)]),
        ("quotas", lambda: list(_quotas(session, needs.quotas))),
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
            rows.append(Row(subject, denied.what, "to be known", Verdict.UNKNOWN, denied.next_step))
    return Preflight(tuple(rows))


def find_account(session: Session) -> str:
    """Return the account that a yard would be deployed into. Raises NoRegion, NoCredentials, NoAnswer, Denied."""
    if not session.region:
        raise NoRegion(
            "no region is set",
            "a yard is in one region, and nothing says which; nothing was downloaded or changed",
            "export AWS_REGION=us-east-1, or aws configure",
        )
    return str(session.client("sts").get_caller_identity()["Account"])


def request_increases(session: Session, seen: Preflight) -> list[Row]:
    """Ask AWS for every quota that is too small and not asked for yet; the rows of those. AWS answers within minutes to
    days: `look` says how far it is."""
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
    return Row("identity", f"{who['Arn']} of {who['Account']}", "who may deploy", Verdict.READY, advice)


def _region(session: Session) -> Row:
    asked = session.client("ec2").describe_regions(AllRegions=True)["Regions"]
    known = {region["RegionName"]: region.get("OptInStatus", "opt-in-not-required") for region in asked}
    name, status = session.region, known.get(session.region)
    if status is None:
        return Row(
            "region", f"{name} is none of EC2's", "a region of EC2", Verdict.MISSING, "export AWS_REGION=..."
        )
    if status == "not-opted-in":
        enable = f"aws account enable-region --region-name {name}"
        return Row("region", f"{name}, which the account has not enabled", "enabled", Verdict.MISSING, enable)
    return Row("region", name, "enabled", Verdict.READY)


def _offered(session: Session, types: Sequence[str]) -> Row:
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
        value, requested = _quota(session, need.quota), _requested(session, need.quota)
        found = f"{value:g} vCPUs{requested}" if value is not None else "AWS knows no such quota here"
        subject, needed = f"{need.name} ({need.quota})", f"{need.vcpus} vCPUs for {need.purpose}"
        if value is None or value >= need.vcpus:
            yield Row(subject, found, needed, Verdict.READY, quota=need.quota)
            continue
        verdict = Verdict.ASKED if requested else Verdict.SHORT
        step = "" if requested else raise_quota_command(need.quota, need.vcpus, session.region)
        yield Row(subject, found, needed, verdict, step, quota=need.quota, desired=need.vcpus)


def _quota(session: Session, code: str) -> float | None:
    """The applied value, else AWS's default."""
    client = session.client("service-quotas")
    for ask in (client.get_service_quota, client.get_aws_default_service_quota):
        try:
            return float(ask(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
        except client.exceptions.NoSuchResourceException:
            continue
    return None


def _requested(session: Session, code: str) -> str:
    """The newest request for this quota in words; nothing where there is none, or it was granted."""
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


def _service_linked_roles(session: Session) -> Row:
    found, missing = [], []
    for service in SERVICES:
        roles = session.client("iam").list_roles(PathPrefix=f"/aws-service-role/{service}/")["Roles"]
        if roles:
            found.append(str(roles[0]["RoleName"]))
        else:
            missing.append(service)
    step = f"the deployment makes those of {' and '.join(missing)}" if missing else ""
    needed = f"those of {' and '.join(SERVICES)}"
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
    """Whether a yard can be deployed with the key, and its alarms be told."""
    if not key:
        return
    if wrong := keys.state(session, key):
        yield Row("KMS key", wrong, key, Verdict.MISSING, "deploy with another -c kms_key=..., or enable it")
        return
    missing = list(keys.lacking(session, key))
    if not missing:
        yield Row("KMS key", "enabled, and its policy lets in whom it must", key, Verdict.READY)
    for who, statement in missing:
        verdict = Verdict.SHORT if who == keys.WHO_ALARMS else Verdict.MISSING
        step = f"add to its policy (aws kms put-key-policy): {json.dumps(statement)}"
        yield Row("KMS key", f"its policy does not let {who} use it", key, verdict, step)


def encryption(session: Session, key: str = "") -> Row:
    """Whether new volumes are encrypted with a key that the yard's roles may not use
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
        f"deploy with -c kms_key={arn}; else launches end in Client.InternalError",
    )


def _vpcs(session: Session, more: int) -> Row:
    pages = session.client("ec2").get_paginator("describe_vpcs").paginate()
    count = sum(len(page["Vpcs"]) for page in pages)
    found, needed = f"{count} in {session.region}", f"{more} more; AWS allows {VPCS_BY_DEFAULT} unless raised"
    if count + more <= VPCS_BY_DEFAULT:
        return Row("VPCs", found, needed, Verdict.READY)
    step = "aws service-quotas request-service-quota-increase --service-code vpc --quota-code L-F678F1CE ..."
    return Row(
        "VPCs", found, needed, Verdict.SHORT, f"{step} (none is needed where the yard is there already)"
    )


def _data_bucket(session: Session, bucket: DataBucket) -> Row:
    """Of a bucket that these credentials may not look at the yard's own may still read."""
    subject, needed = f"data bucket {bucket.uri}", f"a bucket in {session.region} that the yard may read"
    client = session.client("s3")
    try:
        found = client.list_objects_v2(Bucket=bucket.name, Prefix=bucket.prefix, MaxKeys=1).get("KeyCount")
    except client.exceptions.NoSuchBucket:
        step = "make it, or take it out of the setting data_buckets and deploy again"
        return Row(subject, "there is no such bucket", needed, Verdict.SHORT, step)
    there = client.head_bucket(Bucket=bucket.name).get("BucketRegion") or session.region
    if there != session.region:
        step = f"copy it to a bucket in {session.region} (aws s3 sync), and name that one"
        return Row(subject, f"it is in {there}", needed, Verdict.SHORT, step)
    if not found:
        return Row(subject, "nothing is there", needed, Verdict.SHORT, f"aws s3 sync FOLDER {bucket.uri}")
    return Row(subject, "there, and not empty", needed, Verdict.READY)


def _notices(address: str) -> Row:
    if address:
        return Row("notices", f"mailed to {address}", "an address, if you want them", Verdict.READY)
    step = "deploy with -c notify=you@example.com: else nobody is told of an alarm or of a bake that failed"
    return Row("notices", "mailed to nobody", "an address, if you want them", Verdict.READY, step)


def _budget(dollars: float) -> Row:
    if dollars:
        return Row(BUDGET, f"${dollars:g} a month", "a bound", Verdict.READY)
    return Row(
        BUDGET, "none", "a bound, if you want one", Verdict.READY, "deploy with -c monthly_dollars=500"
    )
