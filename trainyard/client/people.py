"""What a person asks the yard for, by an event in their own name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trainyard.client.errors import NotTaken
from trainyard.client.identity import event_source

if TYPE_CHECKING:
    from trainyard.client.deployment import Deployment


GOES_ON = {
    "stop": "{} goes on",
    "cool": "the hosts that {} keeps wait on",
    "dev": "{} does not begin, and all is as it was",
}
ELSE = {
    "stop": "ask again, or stop it without saving",
    "cool": "ask again; they end by themselves when their minutes are over",
    "dev": "ask again",
}


def ask(yard: Deployment, word: str, run: str, **more: Any) -> None:
    """`stop` the run, `cool` the hosts that it keeps, have it see to a `dev` host. Raises NotTaken where the yard's bus
    does not take it."""
    asked = {
        "EventBusName": yard.bus,
        "Source": event_source(yard.session),
        "DetailType": word,
        "Detail": json.dumps({"run": run, **more}),
    }
    (answer,) = yard.session.client("events").put_events(Entries=[asked])["Entries"]
    if "ErrorCode" in answer:
        raise NotTaken(
            f"the event bus {yard.bus} did not take it ({answer['ErrorCode']})",
            f"{answer.get('ErrorMessage', 'it does not say why')}; {GOES_ON[word].format(run)}",
            ELSE[word],
        )
