"""`python -m scripts.account`: account and region that the environment names, and whether `cdk bootstrap` was there.

On one line, the last word `there` or `missing`. Ends with 1 and a sentence where there is no region, or no access.
"""

import os
import sys

import boto3
from botocore.exceptions import BotoCoreError, ClientError

NO_REGION = "deploy: no region. Name it with AWS_REGION, or 'aws configure'."
NOT_ACCEPTED = """deploy: the environment's credentials were not accepted: {}. For the local cloud:
        python -m localcloud up --detach && eval "$(python -m localcloud env)\""""


def main() -> None:
    region = os.environ.get("AWS_REGION") or boto3.Session().region_name
    if not region:
        sys.exit(NO_REGION)
    session = boto3.Session(region_name=region)
    try:
        account = session.client("sts").get_caller_identity()["Account"]
    except (BotoCoreError, ClientError) as error:
        sys.exit(NOT_ACCEPTED.format(error))
    found = "there" if is_bootstrapped(session) else "missing"
    sys.stdout.write(f"{account} {region} {found}\n")


def is_bootstrapped(session: boto3.Session) -> bool:
    """Raises ClientError where CloudFormation may not be asked."""
    try:
        session.client("cloudformation").describe_stacks(StackName="CDKToolkit")
    except ClientError as error:
        if "does not exist" in str(error):
            return False
        raise
    return True


if __name__ == "__main__":
    main()
