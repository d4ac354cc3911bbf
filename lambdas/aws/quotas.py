"""Service Quotas: how many vCPUs of a family the account may run."""

from botocore.exceptions import ClientError

from lambdas.aws.clients import client


def vcpus(code: str) -> float | None:
    """The limit now: the account's own, else AWS's default; None where AWS knows no such quota here."""
    quotas = client("service-quotas")
    for ask in (quotas.get_service_quota, quotas.get_aws_default_service_quota):
        try:
            return float(ask(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"])
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchResourceException":
                raise
    return None
