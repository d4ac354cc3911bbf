"""Clients with their own roles, and their denials."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.ec2.conftest import Yard

Statement = dict[str, Any]


def acting(yard: Yard, *statements: Statement, service: str = "ec2") -> Any:
    return yard.cloud.client(service, yard.cloud.acting_as(*statements))


def denied(call: Callable[..., Any], **parameters: Any) -> str:
    """Return the message of the UnauthorizedOperation that this call must raise."""
    with pytest.raises(ClientError) as raised:
        call(**parameters)
    assert raised.value.response["Error"]["Code"] == "UnauthorizedOperation", raised.value
    return str(raised.value.response["Error"]["Message"])
