"""Hosts stopped and terminated many at a time, where one that EC2 refuses must not keep the others running."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client
from lambdas.core.model.errors import Infrastructure

CHUNK = 500
ABOUT_NO_HOST = (
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "ServiceUnavailable",
    "Unavailable",
)
"""EC2 itself is in trouble, so that the halves would fare no better."""
GONE = "InvalidInstanceID.NotFound"
MOST_TAGGED = 1000


def stop(ids: Collection[str]) -> dict[str, str]:
    """Stop these; why EC2 refuses which of them, in its words."""
    return _each(client("ec2").stop_instances, sorted(ids))


def terminate(ids: Collection[str]) -> dict[str, str]:
    """End these; why EC2 refuses which of them, in its words."""
    return _each(client("ec2").terminate_instances, sorted(ids))


def keep_disks(ids: Collection[str]) -> None:
    """From now on these stop where they would end by shutting themselves down. EC2 takes one a call, so this is for the
    few that somebody has started again, not for the many that are stopped."""
    for host in sorted(ids):
        client("ec2").modify_instance_attribute(
            InstanceId=host, InstanceInitiatedShutdownBehavior={"Value": "stop"}
        )


def tag(hosts: Mapping[str, Sequence[str]], key: str) -> None:
    """Write the tag: hosts by value. One that is gone meanwhile is no error; Infrastructure for any other refusal."""
    refused: dict[str, str] = {}
    for value, ids in hosts.items():
        refused |= _each(_tagger(key, value), ids, chunk=MOST_TAGGED)
    wrong = [f"{host}: {why}" for host, why in refused.items() if not why.startswith(GONE)]
    if wrong:
        raise Infrastructure(f"{len(wrong)} hosts could not be given the tag {key}: {'; '.join(wrong[:3])}")


def _tagger(key: str, value: str) -> Callable[..., Any]:
    def write(InstanceIds: Sequence[str]) -> Any:  # noqa: N803 - as the other calls name it
        return client("ec2").create_tags(Resources=list(InstanceIds), Tags=[{"Key": key, "Value": value}])

    return write


def _each(call: Callable[..., Any], ids: Sequence[str], chunk: int = CHUNK) -> dict[str, str]:
    """All in calls of `chunk`. EC2 refuses a call whole: of one that it refuses, each half is asked again, down to the
    host that it is about. A missing permission is raised."""
    refused: dict[str, str] = {}
    waiting = [list(ids[first : first + chunk]) for first in range(0, len(ids), chunk)]
    while waiting:
        some = waiting.pop()
        try:
            call(InstanceIds=some)
        except ClientError as error:
            said = error.response["Error"]
            if len(some) == 1 or said["Code"] in ABOUT_NO_HOST:
                refused |= dict.fromkeys(some, f"{said['Code']}: {said.get('Message', '')}")
            else:
                middle = len(some) // 2
                waiting += [some[:middle], some[middle:]]
    return refused
