"""SNS: each topic keeps the notifications that were published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from localcloud.base.refusals import publications
from simulation.aws.endpoint.api import REGION, Answer, Caller, Check, Request, ServiceError
from simulation.aws.endpoint.parameters import not_simulated, only
from simulation.world.world import World


@dataclass(frozen=True)
class Notification:
    at: datetime
    sender: str
    topic: str
    subject: str
    text: str


class Notifications:
    def __init__(self, world: World) -> None:
        self.world = world
        self.published: list[Notification] = []
        self._topics: set[str] = set()

    def create_topic(self, arn: str) -> None:
        self._topics.add(arn)

    def checks(self, caller: Caller, operation: str, request: Mapping[str, Any]) -> list[Check]:
        if operation != "publish":
            raise not_simulated(f"sns.{operation}")
        return [Check("sns:Publish", str(request["TopicArn"]), {"aws:securetransport": "true"})]

    def publish(self, caller: Caller, request: Request) -> Answer:
        if wrong := publications.refusal(request, REGION):
            raise ServiceError(wrong.code, wrong.message, status=wrong.status)
        only(request, ("TopicArn", "Subject", "Message", "MessageAttributes"), "Publish")
        topic, subject, text = request["TopicArn"], request.get("Subject", ""), request["Message"]
        if topic not in self._topics:
            raise ServiceError("NotFound", "Topic does not exist", status=404)
        self.published.append(Notification(self.world.now, caller.name, topic, subject, text))
        self.world.note(caller.name, "publishes a notification", subject=subject)
        return {"MessageId": self.world.new_id("notice-")}
