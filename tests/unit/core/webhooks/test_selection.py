"""The selection of webhooks for a message."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.webhooks import Hooks, Message
from trainyard.protocol.webhooks import NotificationKind, Webhook, WebhookKind, own_parameter

END, FAILURE, DAY = NotificationKind.END, NotificationKind.FAILURE, NotificationKind.DAY


def hook(kind: WebhookKind = WebhookKind.SLACK, **more: Any) -> Webhook:
    return Webhook(kind=kind, url="https://a.example", **more)


def message(kind: NotificationKind = END, *notify: str) -> Message:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    return Message(id="m", at=at, kind=kind, subject="s", text="t", submitter="ada", notify=notify)


OF_YARD: Mapping[str, Webhook] = {
    "ml": hook(),
    "pager": hook(WebhookKind.URL, on=(FAILURE,)),
    "quiet": hook(WebhookKind.DISCORD, named_only=True),
}
OWN = hook(named_only=True)
ROWS = [
    (message(), ["ml"]),
    (message(FAILURE), ["ml", "pager"]),
    (message(DAY), []),
    (message(END, "quiet"), ["ml", "quiet"]),
    (message(END, "discord:quiet", "me"), ["me", "ml", "quiet"]),
    (message(END, "slack:quiet"), ["ml"]),
    (message(END, "pager"), ["ml"]),
    (message(END, "gone"), ["ml"]),
]


@pytest.mark.parametrize(("given", "expected"), ROWS)
def test_a_message_goes_to(given: Message, expected: list[str]) -> None:
    assert sorted(Hooks(OF_YARD, OWN).select(given)) == expected


def test_targets_that_were_removed_or_changed_are_reported() -> None:
    given = message(END, "ml", "gone", "slack:quiet", "me")
    assert Hooks(OF_YARD, None).find_missing(given) == ("gone", "slack:quiet", "me")


def test_an_alarm_of_cloudwatch_has_no_attributes() -> None:
    text = '{"AlarmName": "a", "AlarmDescription": "It broke.", "NewStateReason": "1 > 0"}'
    record = {"MessageId": "m", "Timestamp": "2026-11-20T12:00:00.000Z", "Subject": "ALARM", "Message": text}
    found = Message.of(record)
    assert (found.kind, found.text) == (NotificationKind.ALARM, "It broke.\n1 > 0")
    assert Message.of({**record, "Message": "[1]"}).text == "[1]"


@pytest.mark.parametrize(
    ("submitter", "expected"),
    [
        ("ada", "/yard/webhooks/by/ada"),
        ("AROA1:ada@example.org", "/yard/webhooks/by/AROA1_3a_ada_40_example.org"),
        ("a_3a_b", "/yard/webhooks/by/a_5f_3a_5f_b"),
    ],
)
def test_each_submitter_has_a_parameter_of_their_own(submitter: str, expected: str) -> None:
    assert own_parameter("yard", submitter) == expected
