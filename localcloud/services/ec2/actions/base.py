"""What the actions share: the EC2 that they work on, MaxResults and NextToken, and filters as AWS has them."""

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
    """The local cloud's EC2 beyond moto's store. Made once, when it is installed."""

    settings: Settings
    hypervisor: Hypervisor
    capacity: Capacity
    lifecycle: Lifecycle
    timers: Timers
    image_faults: ImageFaults
    impairments: Impairments


class Actions(EC2BaseResponse):
    """Some of the API's actions. moto makes an instance for every request, so the class knows its EC2."""

    ec2: ClassVar[Ec2]


def page(response: EC2BaseResponse, key: str, rows: list[Any]) -> ActionResult:
    """The rows this request asks for, and the token for the next ones when some are left."""
    shown, token = cut(response, rows)
    return ActionResult({key: shown, "NextToken": token})


def cut(response: EC2BaseResponse, rows: list[Any]) -> tuple[list[Any], str | None]:
    """The part of `rows` this request asks for, and the token of the next part."""
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
    """The rows that every filter fits; `fields` says which field of a row each filter asks about."""
    return [row for row in rows if matches({name: [str(row[key])] for name, key in fields.items()}, wanted)]


def matches(values_by_name: dict[str, list[str]], wanted: dict[str, Any]) -> bool:
    """True when every filter finds one of its values (wildcards allowed); an unknown filter is an error."""
    for name, values in wanted.items():
        if name not in values_by_name and not name.startswith("tag:"):
            raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
        if not any(
            fnmatch.fnmatchcase(actual, value) for actual in values_by_name.get(name, []) for value in values
        ):
            return False
    return True
