"""Users of served hosts, who do what trainyard/client/serving.py does: they start a host and ask it for predictions."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from simulation.aws.functions import LambdaFailure
from simulation.aws.stepfunctions import Status
from simulation.exports import ROWS
from simulation.hosts.flow import Flow
from simulation.hosts.pace import Phase
from simulation.hosts.serving import WRONG, Server
from simulation.yard import models
from simulation.yard.models import MODEL, Wanted
from trainyard.client.serving import ANSWER_SECONDS, CONNECT_SECONDS, MOST_WAKES, is_ready
from trainyard.protocol.ledger import reading
from trainyard.protocol.ledger.models import ServedRow
from trainyard.protocol.ledger.run import RunRow
from trainyard.protocol.predictions import event_of, path_of
from trainyard.protocol.requests import Act
from trainyard.protocol.serving import HOST_HEADER, ServeHow
from trainyard.protocol.tags import Tag

if TYPE_CHECKING:
    from simulation.yard import Yard

Waits = Generator[float, None, Any]
PATIENCE = timedelta(hours=3)
"""The longest wait of a user for a host."""
GONE_SECONDS, LOOK_SECONDS = 15.0, 5.0
HOW = ServeHow(
    instance_types=("g6.xlarge", "g5.xlarge"), market="spot_then_on_demand", idle_minutes=5.0, hours=2.0
)
EXPORTS = {"small": True, "large": False}
TRIES, AGAIN_SECONDS = 4, 60.0
"""The times that a user sends a request that got no answer, and the time between them."""


@dataclass(frozen=True)
class Answered:
    """A prediction by a host."""

    at: datetime
    version: int
    instance: str
    run: str


@dataclass
class Asked:
    """A user's request for a prediction by a host."""

    at: datetime
    answer: Answered | None = None
    said: list[str] = field(default_factory=list)
    """The message that the user gets instead of an answer."""
    is_over: bool = False


@dataclass
class HostUsers:
    """The users of the served hosts of a world."""

    yard: Yard
    asked: list[Asked] = field(default_factory=list)
    used: dict[str, datetime] = field(default_factory=dict)
    """The time of the last answer of each host."""
    in_vain: int = 0
    """The number of predictions that users gave up."""

    def begin(self, story: Waits) -> None:
        """Let a user do these things one after the other."""
        users = self.yard.model_users
        users.busy += 1

        def steps() -> Generator[float, None, None]:
            yield from story
            users.busy -= 1

        Flow(self.yard.world, steps(), lambda: False, "a user of a served host")

    def predict(self) -> Waits:
        """Ask for a prediction, and again if there was no answer."""
        for _ in range(TRIES):
            asked = Asked(self.yard.world.now)
            self.asked.append(asked)
            asked.answer = yield from self._predict(asked.said)
            asked.is_over = True
            if asked.answer:
                return
            yield AGAIN_SECONDS
        self.in_vain += 1

    def wait_until_gone(self) -> Waits:
        """Wait until no host serves."""
        until = self.yard.world.now + PATIENCE
        while self.open_hosts() and self.yard.world.now < until:
            yield GONE_SECONDS

    def wait_until_concluded(self) -> Waits:
        """Wait until no host serves, and the run of each host has ended in the ledger, so that no version serves."""
        yield from self.wait_until_gone()
        until = self.yard.world.now + PATIENCE
        while self._open_runs() and self.yard.world.now < until:
            yield GONE_SECONDS

    def _open_runs(self) -> list[str]:
        rows = [self._row(each.name) for each in self.yard.runs()]
        return [row.run for row in rows if row and row.serves and not row.ended]

    def open_hosts(self) -> list[str]:
        """Return the hosts that serve, or that start or end."""
        return [each.id for each in self.yard.ec2.ever.values() if each.live and is_host(each.tags)]

    def _predict(self, said: list[str]) -> Waits:
        """Ask the function, and then the host that it names."""
        answer = yield from self._ask_function()
        number = answer.get("headers", {}).get(HOST_HEADER)
        if number is None:
            said.append(f"the function answered {answer}")
            return None
        for _ in range(MOST_WAKES):
            rows = self.yard.model_users.rows
            row = rows.served_as(int(number)) if rows else None
            if row is None:
                said.append("no host has served the version; start one with trainyard serve")
                return None
            host = self._running(row) or (yield from self.start(None, said))
            if host is None:
                return None
            if (yield from self._reach(host)):
                self.used[host] = self.yard.world.now
                return Answered(self.yard.world.now, row.number, host, row.run)
            said.append(f"{host} did not answer; looking again")
            yield LOOK_SECONDS
        said.append("the host did not answer; trainyard show names the run")
        return None

    def _ask_function(self) -> Waits:
        found: list[Any] = []
        event = event_of("POST", path_of(MODEL, None), json.dumps({"instances": ROWS}))
        self.yard.functions.call(f"{self.yard.name}-predict", event, found.append)
        while not found:
            yield LOOK_SECONDS
        answer: Mapping[str, Any] = (
            {"error": found[0].error} if isinstance(found[0], LambdaFailure) else found[0]
        )
        return answer

    def _running(self, row: ServedRow) -> str | None:
        """Return the host of the run if it answers (client/serving.py, _running)."""
        run = self._row(row.run)
        if run is None or run.ended or run.stopping or not is_ready(run):
            return None
        return self._instance(row.run)

    def do(self, *wanted: Wanted) -> Waits:
        """Send these requests one after the other, and wait for their answers."""
        done: list[bool] = []
        self.yard.model_users.begin(*wanted, then=lambda: done.append(True))
        while not done:
            yield LOOK_SECONDS

    def start(self, how: ServeHow | None, said: list[str] | None = None, *, version: str = "") -> Waits:
        """Request a host for a version, by default for the default one, wait until it is ready, and return it. Return
        None if it cannot serve."""
        said = [] if said is None else said
        users, ended = self.yard.model_users, list[str]()
        values = {"version": version} | ({} if how is None else {"serve": how})
        before = {*users.sent}
        users.send(Wanted(Act.SERVE, values, may_be_refused=True), lambda: ended.append("over"))
        while not ended:
            yield LOOK_SECONDS
        request = [name for name in users.sent if name not in before and users.sent[name].act is Act.SERVE][
            -1
        ]
        execution = next(each for each in self.yard.runs() if each.name == request)
        if execution.status is not Status.SUCCEEDED:
            said.append(f"refused: {execution.cause or execution.error}")
            return None
        run, until = str(json.loads(execution.output or "{}")["run"]), self.yard.world.now + PATIENCE
        while self.yard.world.now < until:
            row = self._row(run)
            over = [
                each for each in self.yard.runs() if each.name == run and each.status is not Status.RUNNING
            ]
            if (row and row.ended) or (row is None and over):
                said.append(f"{run} has ended: {row.reason if row else over[0].cause}")
                return None
            if row and is_ready(row) and (host := self._instance(run)):
                return host
            yield LOOK_SECONDS
        said.append(f"{run} has not answered for {PATIENCE}")
        return None

    def _reach(self, host: str) -> Waits:
        """Begin a session and send the request. Systems Manager may list a new host some seconds late."""
        until = self.yard.world.now + timedelta(seconds=CONNECT_SECONDS)
        while not self.yard.machines.answers(host):
            if self.yard.world.now > until:
                return False
            yield LOOK_SECONDS
        program = self.yard.machines.machine(host).program
        if program is None or not program.lives or not isinstance(program.gang, Server):
            return False
        if program.gang.phase is Phase.HUNG:
            yield ANSWER_SECONDS
        return program.gang.answer()

    def _row(self, run: str) -> RunRow | None:
        found = self.yard.run_row(run)
        return reading.read_all(run, [found]).run if found else None

    def _instance(self, run: str) -> str | None:
        running = (each.id for each in self.yard.ec2.find_tagged(Tag.RUN, run) if each.state == "running")
        return next(running, None)


def is_host(tags: Mapping[str, str]) -> bool:
    """Return True for the tags of a host that serves a model."""
    return bool(tags.get(Tag.SERVES))


def serve_and_wake(yard: Yard) -> None:
    """Serve a version that only TensorFlow runs, use it, leave it idle until its host is gone, and wake it again. Then
    retire it, which is refused while it has a host."""
    users, hosts = yard.model_users, yard.host_users

    def story() -> Waits:
        yield from hosts.start(HOW)
        yield from hosts.predict()
        yield from hosts.predict()
        yield from hosts.wait_until_gone()
        yield from hosts.predict()
        yield from hosts.do(
            models.version("v2", small), models.set_default("v2"), replace(retire, may_be_refused=True)
        )
        yield from hosts.wait_until_concluded()
        yield from hosts.do(retire)

    small, origin = (
        models.upload_export(yard, name, 2.0, converts=converts) for name, converts in EXPORTS.items()
    )
    retire = Wanted(Act.RETIRE, {"version": "v1"})
    made = models.version("v1", origin, alias="default")
    users.begin(models.create(), made, then=lambda: hosts.begin(story()))


def serve_wrong_version(yard: Yard) -> None:
    """Try to serve a version whose host finds another answer to a golden row, twice."""
    users, hosts = yard.model_users, yard.host_users

    def story() -> Waits:
        for _ in range(2):
            asked = Asked(yard.world.now)
            hosts.asked.append(asked)
            yield from hosts.start(HOW, asked.said, version=WRONG)
            asked.is_over = True
            yield AGAIN_SECONDS

    one, two = (
        models.upload_export(yard, name, 2.0, converts=converts) for name, converts in EXPORTS.items()
    )
    made = (models.version("v1", one, alias="default"), models.version(WRONG, two))
    users.begin(models.create(), *made, then=lambda: hosts.begin(story()))
