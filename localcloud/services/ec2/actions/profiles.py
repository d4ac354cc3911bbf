"""Instance profiles for EC2's launches. They are stored in ministack's IAM."""

from __future__ import annotations

from types import SimpleNamespace

from ministack.services import iam as ministack_iam
from moto.ec2.exceptions import EC2ClientError

from localcloud.services.ec2.actions.template import Parameters
from localcloud.services.iam.delay import delay


def profile_of(parameters: Parameters) -> Parameters | None:
    """Return the instance profile of a launch. Raise an error if it does not exist."""
    named = parameters.get("IamInstanceProfile") or {}
    if not named:
        return None
    return find_profile(named.get("Name"), named.get("Arn"))


def find_profile(name: str | None, arn: str | None) -> Parameters:
    """Return an instance profile of ministack's IAM."""
    known = ministack_iam._lookup_instance_profile(name or "", arn or "")
    profile: Parameters | None = (
        delay.profile(name or str(arn).rpartition("/")[2]) if delay.seconds else known
    )
    if profile is None:
        kind, what = ("name", "name") if name else ("arn", "ARN")
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({name or arn}) for parameter iamInstanceProfile.{kind} is invalid. Invalid IAM Instance Profile "
            f"{what}",
        )
    return profile


def moto_profile(account_id: str, partition: str, **named: str | None) -> SimpleNamespace:
    """Return an instance profile in the form of moto's own lookup."""
    profile = find_profile(named.get("iam_instance_profile_name"), named.get("iam_instance_profile_arn"))
    return SimpleNamespace(
        arn=profile["Arn"],
        id=profile["InstanceProfileId"],
        name=profile["InstanceProfileName"],
        instance_profile_id=profile["InstanceProfileId"],
    )
