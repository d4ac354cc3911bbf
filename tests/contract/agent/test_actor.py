"""The simulator's actor compared with the real agent: same bus, same bucket, same cases.

The agent trains in real time, the actor in virtual time. Their signals, with order and values, and their objects in the
bucket are compared line by line.
"""

import difflib
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulation.aws.endpoint.api import ServiceError
from simulation.hosts.environment import CommandEnd
from simulation.hosts.machines import Machines
from simulation.world.world import World
from tests.contract.agent.host import BOTH_WAYS, IMAGE, INSTANCE, MetadataService, Way, Yard
from tests.contract.conftest import PATIENCE_SECONDS, REGION, Cloud

PROGRAM = """
import argparse, hashlib, json, os, pathlib, signal, sys, time

told = os.environ
arguments = argparse.ArgumentParser()
for name, kind in (("steps", int), ("step-seconds", float), ("save-steps", int), ("error-at", int)):
    arguments.add_argument(f"--{name}", type=kind, default=0)
given = arguments.parse_args()
folder = pathlib.Path(told["TRAINYARD_CHECKPOINTS"])
restored = max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=0)
resumed = {"step": restored, "global_batch_size": 32, "epoch": 1, "batch": restored, "verified": True}
asked = False


def write(folder, name, text):
    path = pathlib.Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def save(step):
    if (folder / f"{step:08d}").exists():
        return
    half, variables = folder / f".trainyard-partial-{step}", f"weights of {step}"
    write(half, "variables.data-00000-of-00001", variables)
    sums = {"variables.data-00000-of-00001": hashlib.sha256(variables.encode()).hexdigest()}
    write(half, "trainyard-metadata.json", json.dumps({"step": step, "files": sums}))
    half.replace(folder / f"{step:08d}")


def leave(*_):
    global asked
    asked = True


def facts(step):
    return {"step": step, "steps": given.steps, "epoch": 1, "loss": 2 / step, "accuracy": step / (step + 10)}


signal.signal(signal.SIGTERM, leave)
write(told["TRAINYARD_TENSORBOARD"], "events.out.tfevents", "events")
for step in range(restored + 1, given.steps + 1):
    time.sleep(given.step_seconds)
    if step == given.error_at:
        raise ValueError(f"a fault of the program at step {step}")
    line = facts(step) | {"steps_per_second": 1 / given.step_seconds} | ({"resumed": resumed} if restored else {})
    with open(told["TRAINYARD_PROGRESS"], "a") as lines:
        lines.write(json.dumps(line) + "\\n")
    if asked or step == given.steps or step % given.save_steps == 0:
        save(step)
    if asked:
        sys.exit(75)
model = told["TRAINYARD_MODEL"]
for name in ("saved_model.pb", "trainyard.json", "variables/variables.index"):
    write(model, name, "{}")
end = facts(given.steps)
metrics = {"steps": end["step"], "epochs": 1, "loss": end["loss"], "accuracy": end["accuracy"], "history": []}
write(pathlib.Path(told["TRAINYARD_METRICS"]).parent, "metrics.json", json.dumps(metrics))
"""
SHORT = {"steps": 20, "step-seconds": 0.1, "save-steps": 8}
LONG = {"steps": 400, "step-seconds": 0.1, "save-steps": 8}
MIDDLE = {"steps": 100, "step-seconds": 0.1, "save-steps": 8}
LONGEST = timedelta(minutes=10)
"""Longest time for a signal of the actor."""
NOTICE = timedelta(minutes=2)
REPEATED = ("ready", "progress", "checkpointed")
COMPARED = [
    *("run", "instance", "attempt", "address", "role", "index"),
    *("why", "kind", "exit_code", "final", "reason", "key"),
]
"""Values that must be equal, because they depend neither on time nor on chance.

For others only the names are compared.
"""


# ------------------------------------------------------------------------------------------------ the actor's host


@dataclass
class SimulatedHost:
    """The environment of the actor, which uses the same cloud as the real agent."""

    yard: "Actor"
    instance: str = INSTANCE
    image: str = IMAGE
    instance_type: str = "c5.xlarge"
    region: str = REGION
    address: str = "10.0.1.5"
    notice: datetime | None = None

    @property
    def metadata(self) -> "SimulatedHost":
        return self

    def tags(self) -> Mapping[str, str]:
        pages = self.yard.service.pages
        prefix = "meta-data/tags/instance/"
        return {key.removeprefix(prefix): value for key, value in pages.items() if key.startswith(prefix)}

    def interruption_notice(self) -> datetime | None:
        return self.notice

    def aws(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self.yard.cloud.client(service), operation)(**request)
        except ClientError as error:
            said = error.response["Error"]
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            raise ServiceError(said["Code"], said["Message"], status=status) from error
        if operation == "put_events":
            self.yard.said += [
                (entry["DetailType"], json.loads(entry["Detail"])["attempt"]) for entry in request["Entries"]
            ]
        return answer

    def aws_as_run(self, access_key: str, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        assert access_key == self.yard.cloud.root.key
        return self.aws(service, operation, **request)

    def register(self) -> None:
        pass

    def power_off(self) -> None:
        self.yard.powered_off.append("by itself")

    def crash(self) -> None:
        raise AssertionError("no case crashes this host")


@dataclass
class Actor(Yard):
    """A simulated host in the same yard. Its time passes only while the test waits for a signal."""

    said: list[tuple[str, int]] = field(default_factory=list)
    commands: list[CommandEnd] = field(default_factory=list)

    def start_agent(self) -> MetadataService:
        self.service = self.metadata()
        self.host = SimulatedHost(self)
        self.world = World(1, beginning=datetime.now(UTC))
        self.machines = Machines(
            self.world,
            lambda instance: self.host,
            is_exact=True,
            puts_metrics=False,
            is_registered=lambda host: True,
        )
        self.machines.boot(INSTANCE)
        return self.service

    def order(self, word: str, attempt: int, *, ways: Collection[Way] = BOTH_WAYS, **changes: Any) -> None:
        super().order(word, attempt, ways=ways, **changes)
        given, command = {"Run": [self.run], "Attempt": [str(attempt)]}, f"{word}-{attempt}"
        if "bucket" in ways:
            self.machines.ordered(self.run)
        if "ssm" in ways:
            self.machines.command(INSTANCE, command, f"trainyard-{word}", given, self.commands.append)

    def hear(self, word: str, attempt: int = 1, *, within: float = PATIENCE_SECONDS) -> dict[str, Any]:
        def is_said() -> bool:
            return (word, attempt) in self.said

        self.world.run(self.world.now + LONGEST, stop=is_said)
        assert is_said(), f"it never says {word} of attempt {attempt}: {list(dict.fromkeys(self.said))}"
        return super().hear(word, attempt, within=within)

    def warn(self) -> None:
        self.host.notice = self.world.now + NOTICE
        self.machines.look(INSTANCE)

    def settle(self) -> None:
        self.world.run(self.world.now + timedelta(seconds=5))


@dataclass
class Real(Yard):
    """The yard with the real agent."""

    def start_agent(self) -> MetadataService:
        self.service = super().start_agent()
        return self.service

    def warn(self) -> None:
        at = datetime.now(UTC) + NOTICE
        self.service.pages["meta-data/spot/instance-action"] = json.dumps(
            {"action": "terminate", "time": at.isoformat()}
        )

    def settle(self) -> None:
        """Wait until all uploads have ended."""
        time.sleep(1.5)


Host = Actor | Real


@pytest.fixture
def hosts(yard: Yard, cloud: Cloud, tmp_path: Path) -> Iterator[tuple[Real, Actor]]:
    """Yield both hosts. They use the credentials that `yard` has set."""
    real, actor = Real(cloud, tmp_path / "real"), Actor(cloud, tmp_path / "actor")
    yield real, actor
    real.end()


# -------------------------------------------------------------------------------------------------------- the cases


def trains_to_the_end(host: Host) -> None:
    begin(host, SHORT)
    assert host.hear("finished")["step"] == SHORT["steps"]


def is_stopped_and_goes_on(host: Host) -> None:
    begin(host, MIDDLE)
    host.hear("checkpointed")
    host.order("stop", 1)
    host.hear("stopped")
    host.hear("ready", 2)
    host.order("start", 2, checkpoint={key: host.latest[key] for key in ("step", "key")})
    assert host.hear("finished", 2)["step"] == MIDDLE["steps"]


def is_unknown_to_systems_manager(host: Host) -> None:
    host.prepare(PROGRAM, program={"args": dict(LONG)})
    host.start_agent()
    host.hear("ready")
    host.order("start", 1, ways=["bucket"])
    host.hear("checkpointed")
    host.order("stop", 1, ways=["bucket"])
    host.hear("stopped")
    host.hear("ready", 2)


def is_interrupted(host: Host) -> None:
    begin(host, LONG)
    host.hear("checkpointed")
    host.warn()
    host.hear("stopped")


def meets_an_error_of_the_program(host: Host) -> None:
    begin(host, {**SHORT, "error-at": 12})
    host.hear("failed")


def is_told_to_stop_and_then_interrupted_while_it_waits(host: Host) -> None:
    host.prepare(PROGRAM, program={"args": SHORT})
    host.start_agent()
    host.hear("ready")
    host.order("stop", 1)
    host.hear("stopped")
    host.hear("ready", 2)
    host.warn()
    host.hear("stopped", 2)


def begin(host: Host, args: Mapping[str, float]) -> None:
    host.prepare(PROGRAM, program={"args": dict(args)})
    host.start_agent()
    host.hear("ready")
    host.order("start", 1)
    host.hear("started")


STORIES: list[Callable[[Host], None]] = [
    trains_to_the_end,
    is_stopped_and_goes_on,
    is_unknown_to_systems_manager,
    is_interrupted,
    meets_an_error_of_the_program,
    is_told_to_stop_and_then_interrupted_while_it_waits,
]
NO_MODEL = (
    "TensorFlow cannot read the file that the agent's program writes as its model; the actor's is a stand-in"
)
STAYS: dict[str, str] = {
    "leaves model/assets.extra/golden.json": NO_MODEL,
    "leaves model/model.tflite": NO_MODEL,
    f"leaves attempts/1/drain-confirmations/AROAHOST:{INSTANCE}.json": (
        "a host that already drains only reads the next order"
    ),
}
"""Lines of only one of the two, each with the reason."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_actor_does_as_the_agent(hosts: tuple[Real, Actor], story: Callable[[Host], None]) -> None:
    told = []
    for host in hosts:
        story(host)
        host.settle()
        told.append([*words(host), *left(host)])
    real, actor = told
    differences = [line for line in difflib.ndiff(real, actor) if line[0] in "-+" and line[2:] not in STAYS]
    assert not differences, "(- only the agent, + only the actor)\n" + "\n".join(differences)


# ------------------------------------------------------------------------------------------------ comparable lines


def words(host: Host) -> Iterator[str]:
    """Yield the host's signals in order. Repeated ones appear once."""
    sqs = host.cloud.client("sqs")
    while messages := sqs.receive_message(QueueUrl=host.queue, MaxNumberOfMessages=10).get("Messages"):
        host.heard += [json.loads(message["Body"]) for message in messages]
        for message in messages:
            sqs.delete_message(QueueUrl=host.queue, ReceiptHandle=message["ReceiptHandle"])
    details = sorted((event["detail"] for event in host.heard), key=lambda detail: str(detail["at"]))
    said: list[str] = []
    for detail in details:
        line = word(host, detail)
        if not (detail["signal"] in REPEATED and line in said[-2:]):
            said.append(line)
    yield from said


def word(host: Host, detail: Mapping[str, Any]) -> str:
    facts = (
        f"{key}={plain(host, str(value))}" if key in COMPARED else paths(key, value)
        for key, value in sorted(detail.items())
        if key != "signal"
    )
    return f"says {detail['signal']}: {', '.join(facts)}"


def left(host: Host) -> Iterator[str]:
    """Yield the host's objects in the bucket, and the keys in its JSON files."""
    prefix = f"runs/{host.run}/"
    lines = set()
    for key in host.keys(prefix):
        if "/use/" in key:  # simulated hosts do not sample themselves
            continue
        name = plain(host, key.removeprefix(prefix))
        lines.add(f"leaves {name}")
        if re.search(r"/signals/|latest.json$|^metrics.json$", name):
            lines.add(f"{name} has {paths('', json.loads(host.read(key)))}")
    yield from sorted(lines)


def plain(host: Host, text: str) -> str:
    text = re.sub(r"\d{8}T\d{12}", "TIME", text.replace(host.run, "RUN"))
    return re.sub(r"\b\d{8}\b", "STEP", text)


def paths(key: str, value: Any) -> str:
    """Return the paths of all keys in a JSON value."""
    if isinstance(value, Mapping):
        return f"{key}({', '.join(paths(name, each) for name, each in sorted(value.items()))})"
    return key
