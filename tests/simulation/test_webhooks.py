"""A webhook gets each kind of notification of runs once, also through an outage of its server, in virtual time."""

import base64
import hashlib
import hmac
import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from simulation.cases.case import parse
from simulation.receiver import NAME, Receiver
from simulation.scenarios import SCENARIOS
from simulation.simulate import simulate
from simulation.template import YardTemplate
from simulation.yard import Yard
from trainyard.protocol import webhooks
from trainyard.protocol.webhooks import Webhook, WebhookKind
from trainyard.values import serialization

KEY = base64.b64encode(b"0123456789abcdef01234567").decode()
DIES = "chain: host host-1 after progress #1: dies"
KINDS = {"interruption": 1, "end": 2, "failure": 2}
"""The kinds of the chain: the first run is interrupted once, the second fails, and the third is refused."""


@pytest.mark.parametrize("minutes", [0, 2])
def test_each_notification_reaches_a_webhook_once(yard: YardTemplate, minutes: float) -> None:
    receiver = Receiver(timedelta(minutes=minutes))
    chain, published = SCENARIOS["chain"], set[str]()

    def begin(yard: Yard) -> None:
        hook = Webhook(kind=WebhookKind.URL, url=f"https://{NAME}/yard", key=f"whsec_{KEY}")
        text = json.dumps(serialization.to_json(hook))
        yard.ssm.publish(webhooks.parameter(yard.name, "team"), text)
        receiver.world = yard.world
        chain.begin(yard)

    def at_end(yard: Yard) -> None:
        published.update(each.subject for each in yard.notifications.published)

    with receiver.answers():
        result = simulate(yard, replace(chain, begin=begin), faults=parse(DIES).faults, at_end=at_end)
    assert not result.broken
    bodies = [json.loads(each.body) for each in receiver.received]
    assert Counter(each["type"] for each in bodies) == KINDS
    assert {each["data"]["subject"] for each in bodies} == published
    assert len({each.headers["webhook-id"] for each in receiver.received}) == len(bodies)
    assert bool(receiver.refused) == bool(minutes)
    for each in receiver.received:
        name, at = each.headers["webhook-id"], each.headers["webhook-timestamp"]
        made = hmac.new(base64.b64decode(KEY), f"{name}.{at}.".encode() + each.body, hashlib.sha256).digest()
        assert each.headers["webhook-signature"] == f"v1,{base64.b64encode(made).decode()}"
        assert abs(int(at) - each.at.timestamp()) <= 1
