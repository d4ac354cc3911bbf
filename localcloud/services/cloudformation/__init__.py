"""Refusals of CloudFormation that ministack lacks: exports in use, unknown properties, existing names, deletions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localcloud.patches import MINISTACK
from localcloud.services.cloudformation import creations, deletions, events, exports, properties

HANDLERS = "services.cloudformation.handlers:_ACTION_HANDLERS"


def install() -> None:
    exports.install()
    properties.install()
    creations.install()
    deletions.install()
    events.install()
    _list_no_topics()


def _list_no_topics() -> None:
    """Add the empty list of topics for a stack's events, which AWS returns for each stack."""
    stock = MINISTACK.stock(HANDLERS)["DescribeStacks"]

    def describe(params: Mapping[str, Any]) -> Any:
        status, headers, body = stock(params)
        return status, headers, body.replace(b"<StackStatus>", b"<NotificationARNs/><StackStatus>")

    MINISTACK.extend(HANDLERS, {"DescribeStacks": describe})
