"""SNS: each topic keeps the notifications that were published, and delivers them to its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    def __init__(
        self, world: World, call: Callable[[str, Mapping[str, Any]], None] = lambda *_: None
    ) -> None:
        self.world, self._call = world, call
        self.published: list[Notification] = []
        self._topics: dict[str, Sequence[str]] = {}
        """The functions that are subscribed to each topic."""

    def create_topic(self, arn: str, *, subscribers: Sequence[str] = ()) -> None:
        self._topics[arn] = subscribers

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
        answer = {"MessageId": self.world.new_id("notice-")}
        for function in self._topics[topic]:
            self._call(
                function, {"Records": [{"Sns": _record(request, answer["MessageId"], self.world.now)}]}
            )
        return answer


def _record(request: Request, message: str, at: datetime) -> dict[str, Any]:
    attributes = {
        name: {"Type": each["DataType"], "Value": each["StringValue"]}
        for name, each in request.get("MessageAttributes", {}).items()
    }
    return {
        "MessageId": message,
        "TopicArn": request["TopicArn"],
        "Subject": request.get("Subject"),
        "Message": request["Message"],
        "Timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
        "MessageAttributes": attributes,
    }
