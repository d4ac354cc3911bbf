"""Shared parts of the actions: EC2's state, MaxResults and NextToken, and filters."""

from __future__ import annotations

import base64
import binascii
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses._base_response import EC2BaseResponse

from localcloud.base.background import Timers
from localcloud.base.settings import Settings
from localcloud.machine.hypervisor import Hypervisor
from localcloud.services.ec2.capacity.pools import Capacity
from localcloud.services.ec2.faults import ImageFaults, Impairments
from localcloud.services.ec2.instances.lifecycle import Lifecycle


@dataclass(frozen=True)
class Ec2:
    """The local cloud's EC2 besides moto's store. Created once at the install."""

    settings: Settings
    hypervisor: Hypervisor
    capacity: Capacity
    lifecycle: Lifecycle
    timers: Timers
    image_faults: ImageFaults
    impairments: Impairments


class Actions(EC2BaseResponse):
    """Base class of a group of actions. moto creates an instance for each request, so the class holds EC2."""

    ec2: ClassVar[Ec2]


def page(response: EC2BaseResponse, key: str, rows: list[Any]) -> ActionResult:
    """Return the requested page of rows, and a token if more remain."""
    shown, token = cut(response, rows)
    return ActionResult({key: shown, "NextToken": token})


def cut(response: EC2BaseResponse, rows: list[Any]) -> tuple[list[Any], str | None]:
    """Return the requested part of `rows`, and the token of the next part."""
    start = _start(response._get_param("NextToken"))
    size = response._get_param("MaxResults")
    end = len(rows) if size is None else start + int(size)
    return rows[start:end], _token(end) if end < len(rows) else None


def _token(position: int) -> str:
    return base64.urlsafe_b64encode(f"row:{position}".encode()).decode()


def _start(token: str | None) -> int:
    if not token:
        return 0
    try:
        kind, position = base64.urlsafe_b64decode(token.encode()).decode().split(":")
        if kind != "row":
            raise ValueError(kind)
        return int(position)
    except (ValueError, binascii.Error) as wrong:
        raise EC2ClientError("InvalidNextToken", f"The token '{token}' is invalid") from wrong


def matching_rows(
    rows: list[dict[str, Any]], fields: Mapping[str, str], wanted: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the rows that match every filter. `fields` maps filters to fields of a row."""
    return [row for row in rows if matches({name: [str(row[key])] for name, key in fields.items()}, wanted)]


def matches(values_by_name: dict[str, list[str]], wanted: dict[str, Any]) -> bool:
    """Return True if each filter has a matching value (wildcards allowed). Raise an error for an unknown filter."""
    for name, values in wanted.items():
        if name not in values_by_name and not name.startswith("tag:"):
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not any(
            fnmatch.fnmatchcase(actual, value) for actual in values_by_name.get(name, []) for value in values
        ):
            return False
    return True
