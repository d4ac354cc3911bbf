"""The requests that webhooks get."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from lambdas.core.webhooks import Message
from lambdas.core.webhooks.requests import DISCORD_CHARACTERS, make_request, sign
from trainyard.protocol.webhooks import NotificationKind, Webhook, WebhookKind

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def message(subject: str = "Trainyard: digits-1 succeeded", text: str = "one\ntwo\n") -> Message:
    return Message(
        id="m-1",
        at=NOW,
        kind=NotificationKind.END,
        subject=subject,
        text=text,
        run="digits-1",
        submitter="ada",
    )


def body(kind: WebhookKind, given: Message) -> Any:
    return json.loads(make_request(Webhook(kind=kind, url="https://a.example"), given, NOW).body)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example is the specification's own."""
    signature = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "1614265330",
        b'{"test": 2432232314}',
    )
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_server_gets_the_fields_of_the_message() -> None:
    request = make_request(
        Webhook(kind=WebhookKind.URL, url="https://a.example", key="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        message(),
        NOW,
    )
    assert json.loads(request.body) == {
        "type": "end",
        "timestamp": "2026-11-20T12:00:00.000Z",
        "data": {
            "run": "digits-1",
            "submitter": "ada",
            "subject": "Trainyard: digits-1 succeeded",
            "text": "one\ntwo",
        },
    }
    assert (request.headers["webhook-id"], request.headers["webhook-timestamp"]) == ("m-1", "1795176000")
    assert request.headers["webhook-signature"].startswith("v1,")


def test_a_subject_mentions_nobody() -> None:
    shout = message("<!channel> @everyone & co", "<@U1>")
    assert body(WebhookKind.SLACK, shout)["text"] == "*&lt;!channel&gt; @everyone &amp; co*\n&lt;@U1&gt;"
    assert body(WebhookKind.DISCORD, shout)["allowed_mentions"] == {"parse": []}


@pytest.mark.parametrize("kind", WebhookKind)
def test_a_long_text_is_cut_to_the_size_that_the_receiver_takes(kind: WebhookKind) -> None:
    long = make_request(
        Webhook(kind=kind, url="https://a.example"), message(text="x" * 79 + "\n" + "line\n" * 50_000), NOW
    )
    most = {WebhookKind.SLACK: 16_000, WebhookKind.TEAMS: 28_000, WebhookKind.DISCORD: 8_000}
    assert len(long.body) < most.get(kind, 256_000)
    assert "..." in long.body.decode()
    if kind is WebhookKind.DISCORD:
        assert len(json.loads(long.body)["content"]) <= DISCORD_CHARACTERS


def test_teams_gets_an_adaptive_card_with_a_block_for_each_line() -> None:
    (attachment,) = body(WebhookKind.TEAMS, message())["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    blocks = [block["text"] for block in attachment["content"]["body"]]
    assert blocks == ["Trainyard: digits-1 succeeded", "one", "two"]
