"""Hosts stopped and terminated many at a time, where one that EC2 refuses must not keep the others running."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lambdas.aws.clients import client

CHUNK = 500
THROTTLED = ("RequestLimitExceeded", "Throttling", "ThrottlingException")
MOST_TAGGED = 1000


def stop(ids: Collection[str]) -> dict[str, str]:
    """Stop these; why EC2 refuses which of them, in its words."""
    return _each(client("ec2").stop_instances, sorted(ids))


def terminate(ids: Collection[str]) -> dict[str, str]:
    """End these; why EC2 refuses which of them, in its words."""
    return _each(client("ec2").terminate_instances, sorted(ids))


def tag(hosts: Mapping[str, Sequence[str]], key: str) -> None:
    """Write the tag: hosts by value. One that is gone meanwhile is no error."""
    for value, ids in hosts.items():
        for first in range(0, len(ids), MOST_TAGGED):
            _each(_tagger(key, value), ids[first : first + MOST_TAGGED], chunk=MOST_TAGGED)


def _tagger(key: str, value: str) -> Callable[..., Any]:
    def write(InstanceIds: Sequence[str]) -> Any:  # noqa: N803 - as the other calls name it
        return client("ec2").create_tags(Resources=list(InstanceIds), Tags=[{"Key": key, "Value": value}])

    return write


def _each(call: Callable[..., Any], ids: Sequence[str], chunk: int = CHUNK) -> dict[str, str]:
    """All in calls of `chunk`. EC2 refuses a call whole: of one that it refuses, each half is asked again.

    A throttled call and a missing permission are raised: the halves would fare no better."""
    refused: dict[str, str] = {}
    waiting = [list(ids[first : first + chunk]) for first in range(0, len(ids), chunk)]
    while waiting:
        some = waiting.pop()
        try:
            call(InstanceIds=some)
        except ClientError as error:
            if error.response["Error"]["Code"] in THROTTLED:
                raise
            if len(some) == 1:
                said = error.response["Error"]
                refused[some[0]] = f"{said['Code']}: {said.get('Message', '')}"
            else:
                middle = len(some) // 2
                waiting += [some[:middle], some[middle:]]
    return refused
