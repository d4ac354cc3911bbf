"""Events that AWS services put on the default bus (aws.ec2, aws.ssm, ...).

`emit` only queues, because its callers hold moto's lock, and a target such as a Lambda that calls EC2 would wait for
that lock. One thread delivers, so events keep their order.
"""

from __future__ import annotations

import contextvars
import json
import logging
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from ministack.services import eventbridge

from localcloud.base.injected import Injected

log = logging.getLogger(__name__)
Event = dict[str, Any]

BEST_EFFORT = (
    "EC2 AMI State Change",
    "EC2 Command Invocation Status-change Notification",
    "EC2 Command Status-change Notification",
    "EC2 Instance Rebalance Recommendation",
    "EC2 Instance State-change Notification",
    "EC2 Spot Instance Interruption Warning",
    "Step Functions Execution Status Change",
)
"""Kinds of events that AWS may lose. Events of S3 always arrive."""

lost_events: Injected[bool] = Injected()
"""Faults by kind of event."""
_outbox: queue.Queue[tuple[contextvars.Context, Event]] = queue.Queue()


def emit(source: str, detail_type: str, detail: Mapping[str, Any], resources: Iterable[str] = ()) -> None:
    """Queue an event for the default bus of the current request's account and region."""
    event = {
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "Resources": list(resources),
    }
    _outbox.put((contextvars.copy_context(), event))


def install() -> None:
    threading.Thread(target=_deliver_forever, name="events", daemon=True).start()


def _deliver_forever() -> None:
    while True:
        request, event = _outbox.get()
        try:
            request.run(_deliver, event)
        except Exception:  # delivery is best effort, as on AWS; one failure must not stop the thread
            log.exception("event %s of %s was not delivered", event["DetailType"], event["Source"])


def _deliver(event: Event) -> None:
    eventbridge._put_events({"Entries": [event]}, allow_aws_source=True)
