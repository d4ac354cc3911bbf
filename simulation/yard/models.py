"""Models: the users of their scenarios, who send requests and ask for predictions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.aws.functions import LambdaFailure
from simulation.exports import ROWS, make_export
from trainyard.protocol import keys
from trainyard.protocol.export import RECORD
from trainyard.protocol.predictions import event_of, path_of
from trainyard.protocol.requests import Act, ModelRequest, name_request

if TYPE_CHECKING:
    from simulation.yard import Yard

MODEL = "digits"
LOOK_SECONDS, PREDICT_SECONDS = 5.0, 4.0
START_SECONDS = 150.0
"""The time after which a user sends a request again because no execution has begun."""
EXPORTS = f"{keys.DATA}by/alice/exports/"


@dataclass(frozen=True)
class Wanted:
    """A request that a user sends, without its name."""

    act: Act
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Predicted:
    """The answer to a request for a prediction."""

    asked: datetime
    answered: datetime
    answer: Mapping[str, Any]


@dataclass
class ModelUsers:
    """The users of one world, who wait for the answer to a request before they send the next one."""

    yard: Yard
    sent: list[ModelRequest] = field(default_factory=list)
    predicted: list[Predicted] = field(default_factory=list)
    busy: int = 0
    """The number of users who have not finished."""

    def begin(self, *wanted: Wanted, then: Callable[[], object] = lambda: None) -> None:
        """Send these requests one after the other, then call `then`."""
        self.busy += 1
        self._send(wanted, then)

    def _send(self, wanted: Sequence[Wanted], then: Callable[[], object]) -> None:
        if not wanted:
            self.busy -= 1
            then()
            return
        name = name_request(MODEL, self.yard.world.now, f"{len(self.sent):06x}")
        request = ModelRequest(request=name, act=wanted[0].act, model=MODEL, **wanted[0].values)
        self.sent.append(request)
        self.yard.people.send(request)
        self._wait(name, wanted, then, self.yard.world.now + timedelta(seconds=START_SECONDS))

    def _wait(self, name: str, wanted: Sequence[Wanted], then: Callable[[], object], until: datetime) -> None:
        def look() -> None:
            execution = next((each for each in self.yard.runs() if each.name == name), None)
            if execution is None and self.yard.world.now > until:
                self._send(wanted, then)
            elif execution is None or execution.stopped is None:
                self._wait(name, wanted, then, until)
            else:
                self._send(wanted[1:], then)

        self.yard.after(LOOK_SECONDS, look, "a user looks for the answer to a request")

    def ask_for_predictions(self) -> None:
        """Ask the default version again and again, while a user is busy."""
        if not self.busy:
            return
        body = json.dumps({"instances": ROWS})
        event, asked = event_of("POST", path_of(MODEL, None), body), self.yard.world.now

        def note(answer: Any) -> None:
            found = {"error": answer.error} if isinstance(answer, LambdaFailure) else answer
            self.predicted.append(Predicted(asked, self.yard.world.now, found))

        self.yard.functions.call(f"{self.yard.name}-predict", event, note)
        self.yard.after(PREDICT_SECONDS, self.ask_for_predictions, "a user asks for a prediction")


def create() -> Wanted:
    return Wanted(Act.CREATE)


def version(label: str, origin: str, **values: str) -> Wanted:
    return Wanted(Act.VERSION, {"version": label, "origin": origin, **values})


def set_default(label: str) -> Wanted:
    return Wanted(Act.MOVE, {"version": label})


def upload_export(yard: Yard, name: str, weight: float) -> str:
    """Upload a foreign export, and return its URI."""
    for path, content in sorted(make_export(weight).items(), key=lambda item: item[0] == RECORD):
        yard.people.call("s3", "put_object", Bucket=yard.bucket, Key=f"{EXPORTS}{name}/{path}", Body=content)
    return f"s3://{yard.bucket}/{EXPORTS}{name}/"


def two_at_once(yard: Yard) -> None:
    """Two users create versions at the same moment, once the model exists."""
    origins = [upload_export(yard, name, weight) for name, weight in (("one", 2.0), ("two", 3.0))]
    users = yard.model_users

    def both() -> None:
        for label, origin in zip(("v1", "second"), origins, strict=True):
            users.begin(version(label, origin))

    users.begin(create(), then=both)


def move_aliases(yard: Yard) -> None:
    """Set the default, move it on, move it back and retire the other version, while a user asks for predictions."""
    one, two = (upload_export(yard, name, weight) for name, weight in (("one", 2.0), ("two", 3.0)))
    users = yard.model_users
    users.begin(
        create(),
        version("v1", one, alias="default"),
        version("v2", two),
        set_default("v2"),
        Wanted(Act.ROLLBACK),
        Wanted(Act.RETIRE, {"version": "v2"}),
    )
    yard.after(PREDICT_SECONDS, users.ask_for_predictions, "a user asks for a prediction")


def is_over(yard: Yard) -> bool:
    """Return True once every user has finished and every execution has ended."""
    return not yard.model_users.busy and bool(yard.runs()) and yard.all_over()
