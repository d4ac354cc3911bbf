"""Refusals of SNS that depend on its topics and subscriptions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ministack.core.responses import get_account_id, get_region
from ministack.services import sns

from localcloud.base import json_errors
from localcloud.base.refusals import Refusal, Request, Rule, first, publications
from localcloud.base.refusals.publications import invalid, malformed
from localcloud.services import sns_filters as filters

PROTOCOLS = ("http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose")
ACTIONS = [
    "GetTopicAttributes",
    "SetTopicAttributes",
    "AddPermission",
    "RemovePermission",
    "DeleteTopic",
    "Subscribe",
    "ListSubscriptionsByTopic",
    "Publish",
    "Receive",
]
ATTRIBUTES = [
    "DeliveryPolicy",
    "FilterPolicy",
    "FilterPolicyScope",
    "RawMessageDelivery",
    "RedrivePolicy",
    "SubscriptionRoleArn",
    "ReplayPolicy",
]
TOPIC_NAME = re.compile(r"[\w-]{1,256}(\.fifo)?", re.ASCII)
TOPIC_OPERATIONS = [
    "GetTopicAttributes",
    "SetTopicAttributes",
    "DeleteTopic",
    "Subscribe",
    "AddPermission",
    "RemovePermission",
    "ListSubscriptionsByTopic",
]


def _publish(request: Request) -> Refusal | None:
    return publications.refusal(request, get_region())


def _topic(request: Request) -> Refusal | None:
    wrong = malformed("TopicArn", str(request.get("TopicArn", "")))
    return invalid(wrong) if wrong else None


def _create_topic(request: Request) -> Refusal | None:
    name, tags = str(request.get("Name", "")), request.get("Tags") or []
    if not TOPIC_NAME.fullmatch(name) or (
        name.endswith(".fifo") != ((request.get("Attributes") or {}).get("FifoTopic") == "true")
    ):
        return invalid("Topic Name")
    if any(number > 1 for number in Counter(tag["Key"] for tag in tags).values()):
        return invalid("Duplicated keys are not allowed.")
    topic = sns._topics.get(f"arn:aws:sns:{get_region()}:{get_account_id()}:{name}")
    if topic is None:
        return None
    attributes = request.get("Attributes") or {}
    if any(topic["attributes"].get(key) != value for key, value in attributes.items()):
        return invalid("Attributes Reason: Topic already exists with different attributes")
    if tags and {tag["Key"]: tag["Value"] for tag in tags} != topic["tags"]:
        return invalid("Tags Reason: Topic already exists with different tags")
    return None


def _subscribe(request: Request) -> Refusal | None:
    protocol, endpoint = request.get("Protocol"), str(request.get("Endpoint", ""))
    attributes = request.get("Attributes") or {}
    if protocol not in PROTOCOLS:
        return invalid(f"Amazon SNS does not support this protocol string: {protocol}")
    if protocol == "sqs" and not endpoint.startswith("arn:"):
        return invalid("SQS endpoint ARN")
    if wrong := _raw_delivery(attributes.get("RawMessageDelivery")) or filters.fault(attributes):
        return invalid(f"Attributes Reason: {wrong}")
    topic = sns._topics.get(request.get("TopicArn"))
    known = [
        each
        for each in (topic or {}).get("subscriptions", ())
        if (each["protocol"], each["endpoint"]) == (protocol, endpoint)
    ]
    if any(each["attributes"].get(key) != value for each in known for key, value in attributes.items()):
        return invalid("Attributes Reason: Subscription already exists with different attributes")
    return None


def _raw_delivery(value: str | None) -> str | None:
    if value is None or value.lower() in ("true", "false"):
        return None
    return f"RawMessageDelivery: Invalid value [{value}]. Must be true or false."


def _set_subscription_attributes(request: Request) -> Refusal | None:
    name, value = request.get("AttributeName"), request.get("AttributeValue", "")
    if name not in ATTRIBUTES:
        return invalid("AttributeName")
    wrong = _raw_delivery(value) if name == "RawMessageDelivery" else None
    if name in ("FilterPolicy", "FilterPolicyScope"):
        scope = _attributes(str(request.get("SubscriptionArn"))).get("FilterPolicyScope", filters.SCOPES[0])
        wrong = filters.fault({"FilterPolicyScope": scope, name: value})
    if name == "RedrivePolicy":
        wrong = _redrive(value)
    return invalid(wrong) if wrong else None


def _attributes(subscription: str) -> Mapping[str, str]:
    topic = sns._topics.get(sns._sub_arn_to_topic.get(subscription)) or {}
    found = (each["attributes"] for each in topic.get("subscriptions", ()) if each["arn"] == subscription)
    return next(found, {})


def _redrive(text: str) -> str | None:
    try:
        policy = json.loads(text)
    except json.JSONDecodeError as error:
        return f"RedrivePolicy: failed to parse JSON. {json_errors.describe(text, error, hide=True)}"
    arn = str(policy.get("deadLetterTargetArn", "")) if isinstance(policy, dict) else ""
    is_queue = arn.startswith("arn:") and arn.count(":") >= 5
    return None if is_queue else "RedrivePolicy: deadLetterTargetArn is an invalid arn"


def _unsubscribe(request: Request) -> Refusal | None:
    arn = str(request.get("SubscriptionArn", ""))
    if not arn:
        return invalid("SubscriptionArn Reason: no value for required parameter")
    wrong = malformed("SubscriptionArn", arn) or ("SubscriptionId" if arn.count(":") < 6 else None)
    return invalid(wrong) if wrong else None


def _add_permission(request: Request) -> Refusal | None:
    foreign = [each for each in request.get("ActionName") or () if each not in ACTIONS]
    return invalid("Policy statement action out of service scope!") if foreign else None


def _both(one: Rule, other: Rule) -> Rule:
    return lambda request: first(one(request), other(request))


_OWN: Mapping[str, Any] = {"Subscribe": _subscribe, "AddPermission": _add_permission}
RULES: Mapping[str, Rule] = {
    "Publish": _publish,
    "CreateTopic": _create_topic,
    "SetSubscriptionAttributes": _set_subscription_attributes,
    "Unsubscribe": _unsubscribe,
    **{name: _both(_topic, _OWN[name]) if name in _OWN else _topic for name in TOPIC_OPERATIONS},
}
