"""Models: the users of their scenarios, who send requests and ask for predictions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.aws.functions import LambdaFailure
from simulation.exports import make_export
from simulation.faults import PERSON
from trainyard.protocol import keys
from trainyard.protocol.export import RECORD, SAVED_MODEL
from trainyard.protocol.ledger.models import DEFAULT, ModelRows, partition
from trainyard.protocol.predictions import event_of, path_of
from trainyard.protocol.requests import Act, ModelRequest, name_request

if TYPE_CHECKING:
    from simulation.yard import Yard

MODEL = "digits"
LOOK_SECONDS, PREDICT_SECONDS = 5.0, 4.0
START_SECONDS = 150.0
"""The time after which a user sends a request again because no execution has begun."""
EXPORTS = f"{keys.DATA}by/alice/exports/"
APPROVER = "bob"
"""The user who approves what PERSON requests."""
MOST_SUM = 5.5
"""The largest sum that a model with a fault can multiply. Three of eight requests of a user have a larger one."""
CANARY_MINUTES, SHADOW_MINUTES = 2, 1
WAIT_MINUTES = 40.0


@dataclass(frozen=True)
class Wanted:
    """A request that a user sends, without its name."""

    act: Act
    values: Mapping[str, Any] = field(default_factory=dict)
    by: str = PERSON
    is_refused: bool = False
    """True if the yard must refuse the request."""
    may_be_refused: bool = False


@dataclass(frozen=True)
class Until:
    """A user waits until this is true of the model, at most `minutes`."""

    is_true: Callable[[ModelRows], bool]
    minutes: float = WAIT_MINUTES


@dataclass(frozen=True)
class Predicted:
    """The answer to a request for a prediction."""

    rows: Sequence[Sequence[float]]
    asked: datetime
    answered: datetime
    answer: Mapping[str, Any]


@dataclass
class ModelUsers:
    """The users of one world, who wait for the answer to a request before they send the next one."""

    yard: Yard
    sent: dict[str, Wanted] = field(default_factory=dict)
    """The requests by the name of their execution."""
    predicted: list[Predicted] = field(default_factory=list)
    busy: int = 0
    """The number of users who have not finished."""

    @property
    def rows(self) -> ModelRows | None:
        return ModelRows.of(self.yard.rows(partition(MODEL)))

    def is_to_be_refused(self, request: str) -> bool:
        return request in self.sent and self.sent[request].is_refused

    def may_be_refused(self, request: str) -> bool:
        return request in self.sent and self.sent[request].may_be_refused

    def begin(self, *wanted: Wanted | Until, then: Callable[[], object] = lambda: None) -> None:
        """Send these requests one after the other, then call `then`."""
        self.busy += 1
        self._continue(wanted, then)

    def _continue(self, wanted: Sequence[Wanted | Until], then: Callable[[], object]) -> None:
        if not wanted:
            self.busy -= 1
            then()
        elif isinstance(first := wanted[0], Until):
            until = self.yard.world.now + timedelta(minutes=first.minutes)
            self._wait_until(first, until, lambda: self._continue(wanted[1:], then))
        else:
            self.send(first, lambda: self._continue(wanted[1:], then))

    def _wait_until(self, condition: Until, until: datetime, then: Callable[[], object]) -> None:
        def look() -> None:
            rows = self.rows
            if (rows and condition.is_true(rows)) or self.yard.world.now > until:
                then()
            else:
                self._wait_until(condition, until, then)

        self.yard.after(LOOK_SECONDS, look, "a user looks at a model")

    def send(self, wanted: Wanted, then: Callable[[], object]) -> None:
        """Send a request, and call `then` once its execution has ended."""
        name = name_request(MODEL, self.yard.world.now, f"{len(self.sent):06x}")
        request = ModelRequest(request=name, act=wanted.act, model=MODEL, **wanted.values)
        self.sent[name] = wanted
        self.yard.people.send(request, wanted.by)
        self._wait(name, wanted, then, self.yard.world.now + timedelta(seconds=START_SECONDS))

    def _wait(self, name: str, wanted: Wanted, then: Callable[[], object], until: datetime) -> None:
        def look() -> None:
            execution = next((each for each in self.yard.runs() if each.name == name), None)
            if execution is None and self.yard.world.now > until:
                self.send(wanted, then)
            elif execution is None or execution.stopped is None:
                self._wait(name, wanted, then, until)
            else:
                then()

        self.yard.after(LOOK_SECONDS, look, "a user looks for the answer to a request")

    def ask_for_predictions(self) -> None:
        """Ask the default version again and again, with other rows each time, while a user is busy."""
        if not self.busy:
            return
        number = len(self.predicted)
        rows = [[float(number % 8), 1.5 + number / 1024]]
        body = json.dumps({"instances": rows})
        agent = {
            "User-Agent": f"row {self.rows.row.version if self.rows else 0}"
        }  # alike while the model is the same
        event, asked = event_of("POST", path_of(MODEL, None), body, agent), self.yard.world.now

        def note(answer: Any) -> None:
            found = {"error": answer.error} if isinstance(answer, LambdaFailure) else answer
            self.predicted.append(Predicted(rows, asked, self.yard.world.now, found))

        self.yard.functions.call(f"{self.yard.name}-predict", event, note)
        self.yard.after(PREDICT_SECONDS, self.ask_for_predictions, "a user asks for a prediction")


def create(**values: Any) -> Wanted:
    return Wanted(Act.CREATE, values)


def version(label: str, origin: str, **values: str) -> Wanted:
    return Wanted(Act.VERSION, {"version": label, "origin": origin, **values})


def set_default(label: str) -> Wanted:
    return Wanted(Act.MOVE, {"version": label})


def canary(label: str, percent: int, minutes: int, *, shadow: bool = False) -> Wanted:
    return Wanted(Act.CANARY, {"version": label, "percent": percent, "minutes": minutes, "shadow": shadow})


def upload_export(yard: Yard, name: str, weight: float, **described: Any) -> str:
    """Upload an export of another yard, and return its URI. `described` are values of make_export."""
    return upload_files(yard, name, make_export(weight, **described))


def upload_files(yard: Yard, name: str, files: Mapping[str, bytes]) -> str:
    """Upload the files of a model, and return their URI."""
    for path, content in sorted(files.items(), key=lambda item: item[0] == RECORD):
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


def try_failing_canary(yard: Yard) -> None:
    """Let a version that fails for some requests answer half of them, until patrol rolls it back; then retire it."""
    one = upload_export(yard, "one", 2.0)
    two = upload_export(yard, "two", 3.0, most=MOST_SUM)
    users = yard.model_users
    users.begin(
        create(),
        version("v1", one, alias="default"),
        version("v2", two),
        canary("v2", 50, 60),
        Until(lambda rows: rows.row.canary is None),
        Wanted(Act.RETIRE, {"version": "v2"}),
    )
    yard.after(PREDICT_SECONDS, users.ask_for_predictions, "a user asks for a prediction")


def promote_canary(yard: Yard) -> None:
    """Let a version be the shadow of the default, and then its canary, until it becomes the default. Another user
    approves each move of the default."""
    one, two = (upload_export(yard, name, weight) for name, weight in (("one", 2.0), ("two", 3.0)))
    users = yard.model_users
    approve = Wanted(Act.APPROVE, by=APPROVER)
    users.begin(
        create(approval=1),
        version("v1", one, alias="default"),
        replace(approve, by=PERSON, is_refused=True),
        approve,
        version("v2", two),
        canary("v2", 100, SHADOW_MINUTES, shadow=True),
        Until(lambda rows: rows.row.shadow is None),
        canary("v2", 80, CANARY_MINUTES),
        Until(lambda rows: DEFAULT in rows.row.pending),
        replace(approve, by=PERSON, is_refused=True),
        approve,
    )
    yard.after(PREDICT_SECONDS, users.ask_for_predictions, "a user asks for a prediction")


def convert(yard: Yard) -> None:
    """Create a version of a SavedModel that no yard has exported. A run prepares it."""
    files = {
        path: body for path, body in make_export(1.0).items() if path.startswith((SAVED_MODEL, "variables/"))
    }
    origin = upload_files(yard, "foreign", files)
    yard.model_users.begin(create(), version("v1", origin, alias="default"))


def is_over(yard: Yard) -> bool:
    """Return True once every user has finished and every execution has ended."""
    return not yard.model_users.busy and bool(yard.runs()) and yard.all_over()
