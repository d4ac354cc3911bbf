"""MaxResults and NextToken, as EC2 has them: a token says after which row to go on."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.responses._base_response import EC2BaseResponse


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
