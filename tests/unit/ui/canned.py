"""A yard whose AWS answers from memory and counts requests.

One run trains, one waits, one failed, one was interrupted, and one was refused. The list may have any number of
further runs. `python -m tests.unit.ui.canned [RUNS] [POINTS]` serves the yard's page in a browser.
"""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from math import exp, sin
from typing import Any

from botocore.exceptions import ClientError

from tests.unit.client.facts import MACHINE, yard_of
from trainyard.client import Yard
from trainyard.core.model.names import BY_MONTH, LISTED
from trainyard.values import serialization

VERSION = "v1"
"""The version ID of every stored object."""
EXECUTION = MACHINE.replace(":stateMachine:", ":execution:")
TRAINING, WAITING, FAILED = "digits-1a2b3c4d", "wide-2b3c4d5e", "broken-3c4d5e6f"
INTERRUPTED, REFUSED = "resnet-4d5e6f70", "typo-5e6f7081"
POOL, OTHER = "g6.xlarge in us-east-1a, spot", "g5.xlarge in us-east-1b, spot"
ADMITTED = {
    "name": "resnet",
    "program": {"source": "s3://trainyard-bucket/programs/p.tar.gz", "module": "train", "args": {"lr": 0.5}},
    "hardware": {"instance_types": ["g6.xlarge"]},
    "limits": {"hours": 1, "dollars": 5},
}
WORDS = (
    'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: shapes (64, 10) and (32, 10)'
)


@dataclass(frozen=True)
class Clock:
    """A clock that returns the time this many seconds after a story began."""

    begun: datetime

    def __call__(self, seconds: float) -> datetime:
        return self.begun + timedelta(seconds=seconds)


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Story:
    """One run: its rows in the ledger, its timeline, the states of its execution, and the files in its folder."""

    row: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    states: list[tuple[datetime, str]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    status: str = "RUNNING"
    trials: list[dict[str, Any]] = field(default_factory=list)
    """The rows of a study: its counters and its trials."""

    @property
    def id(self) -> str:
        return str(self.row["pk"]).removeprefix("run#")


class Cloud:
    """An AWS client. `calls` records the names of the called methods. `denies` is an error that every call raises."""

    def __init__(self, stories: Iterable[Story], instances: Iterable[dict[str, Any]] = ()) -> None:
        self.stories = {story.id: story for story in stories}
        self.instances = list(instances)
        self.calls: Counter[str] = Counter()
        self.denies: Exception | None = None
        self.stopped: list[str] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.put: dict[str, bytes] = {}
        self.images: list[dict[str, Any]] = []
        self.schedules: dict[str, dict[str, Any]] = {}
        """The rows of schedules by their names."""
        self.models: Mapping[str, list[dict[str, Any]]] = {}
        """The rows of models by their partition key."""

    def yard(self) -> Yard:
        """Return the yard with a new session, as each thread of the page does."""
        yard = yard_of(CannedSession(self))  # type: ignore[arg-type]
        bake = MACHINE.replace("-train", "-bake")
        yard.workflows.update({"bake": bake})  # type: ignore[attr-defined]
        return yard

    def has_put(self, key: str) -> None:
        """Ignore a new object: in these stories, nothing reacts to it."""

    def asked(self, method: str) -> None:
        self.calls[method] += 1
        if self.denies:
            raise self.denies

    def story(self, arn: str) -> Story:
        story = self.stories.get(arn.rsplit(":", 1)[-1])
        if story is None or story.row["execution_arn"] != arn:
            raise Gone({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        return story

    def file(self, key: str) -> bytes | None:
        if key in self.put:
            return self.put[key]
        run, _, name = key.removeprefix("runs/").partition("/")
        return self.stories[run].files.get(name) if run in self.stories else None

    def keys(self, prefix: str) -> dict[str, int]:
        known = {
            f"runs/{run}/{name}": len(body)
            for run, story in self.stories.items()
            for name, body in story.files.items()
        }
        return {key: size for key, size in known.items() if key.startswith(prefix)}


class Gone(ClientError):  # type: ignore[misc]  # noqa: N818 - not ours to name
    """The error of a client, which is also the class in the client's `exceptions`."""


@dataclass
class CannedSession:
    """A replacement for trainyard.client.Session."""

    cloud: Cloud
    region: str = "us-east-1"

    def client(self, service: str) -> Any:
        return CLIENTS[service](self.cloud)

    def resource(self, service: str) -> Any:
        assert service == "dynamodb"
        return Dynamo(self.cloud)


@dataclass
class Client:
    cloud: Cloud

    def get_paginator(self, method: str) -> Any:
        return Paginator(partial(getattr(self, method)))


@dataclass
class Paginator:
    ask: Any

    def paginate(self, **given: Any) -> Iterator[Any]:
        yield self.ask(**given)


class Exceptions:
    ExecutionDoesNotExist = Gone
    InvalidArn = Gone


class States(Client):
    exceptions = Exceptions

    def describe_execution(self, executionArn: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.cloud.asked("describe_execution")
        story = self.cloud.story(executionArn)
        over = {"stopDate": datetime.fromisoformat(story.row["ended"])} if story.row.get("ended") else {}
        began = datetime.fromisoformat(story.row["created"])
        return {"executionArn": executionArn, "status": story.status, "startDate": began, **over}

    def get_execution_history(self, executionArn: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.cloud.asked("get_execution_history")
        entered = self.cloud.story(executionArn).states
        return {
            "events": [{"timestamp": at, "stateEnteredEventDetails": {"name": name}} for at, name in entered]
        }

    def stop_execution(self, executionArn: str, error: str, cause: str) -> None:  # noqa: N803 - boto3's name
        assert error
        assert cause
        self.cloud.asked("stop_execution")
        self.cloud.stopped.append(executionArn)

    def start_execution(self, stateMachineArn: str, input: str) -> dict[str, Any]:  # noqa: A002, N803 - boto3's names
        self.cloud.asked("start_execution")
        return {"executionArn": stateMachineArn.replace(":stateMachine:", ":execution:") + ":bake-9"}


class Buckets(Client):
    def put_object(self, Bucket: str, Key: str, Body: bytes) -> dict[str, str]:  # noqa: N803 - boto3's names
        self.cloud.asked("put_object")
        self.cloud.put[Key] = Body
        self.cloud.has_put(Key)
        return {"VersionId": VERSION}

    def get_object(self, Bucket: str, Key: str, Range: str = "bytes=0-") -> dict[str, Any]:  # noqa: N803 - boto3's names
        self.cloud.asked("get_object")
        body = self.cloud.file(Key)
        if body is None:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": Body(body[int(Range.removeprefix("bytes=").rstrip("-")) :])}

    def list_objects_v2(
        self,
        Bucket: str,  # noqa: N803 - boto3's names
        Prefix: str,  # noqa: N803
        Delimiter: str = "",  # noqa: N803
        StartAfter: str = "",  # noqa: N803
    ) -> dict[str, Any]:
        self.cloud.asked("list_objects_v2")
        keys = {key: size for key, size in self.cloud.keys(Prefix).items() if key > StartAfter}
        if Delimiter:
            folders = {key.removeprefix(Prefix).partition(Delimiter)[0] for key in keys}
            return {"CommonPrefixes": [{"Prefix": f"{Prefix}{name}/"} for name in sorted(folders)]}
        listed = [{"Key": key, "Size": size, "ETag": f"{size}"} for key, size in sorted(keys.items())]
        return {"Contents": listed}


class Body(io.BytesIO):
    def iter_chunks(self, size: int) -> Iterator[bytes]:
        yield from iter(partial(self.read, size), b"")


class Machines(Client):
    def describe_instances(self, Filters: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.cloud.asked("describe_instances")
        return {"Reservations": [{"Instances": self.cloud.instances}]}

    def describe_images(self, **_: Any) -> dict[str, Any]:
        self.cloud.asked("describe_images")
        return {"Images": self.cloud.images}


class Parameters(Client):
    def get_parameter(self, Name: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.cloud.asked("get_parameter")
        return {"Parameter": {"Value": "ami-00000003" if Name.endswith("/image") else "ami-00000002"}}


class Metrics(Client):
    def get_metric_data(
        self,
        MetricDataQueries: list[dict[str, Any]],  # noqa: N803 - boto3's names
        StartTime: datetime,  # noqa: N803
        EndTime: datetime,  # noqa: N803
    ) -> dict[str, Any]:
        self.cloud.asked("get_metric_data")
        return {"MetricDataResults": [_metric(query, StartTime, EndTime) for query in MetricDataQueries]}


def _metric(query: dict[str, Any], begin: datetime, end: datetime) -> dict[str, Any]:
    """Return alternating use of GPUs and processors, or no values for a host whose name ends in b."""
    wanted = query["MetricStat"]
    host, period = wanted["Metric"]["Dimensions"][0]["Value"], timedelta(seconds=wanted["Period"])
    count = 0 if host.endswith("b") else (end - begin) // period
    times = [begin + number * period for number in range(count)]
    return {
        "Id": query["Id"],
        "Timestamps": times,
        "Values": [50 + 45 * sin(number) for number in range(count)],
    }


class Functions(Client):
    def invoke(self, **given: Any) -> dict[str, Any]:
        """Answer as the function for predictions does."""
        self.cloud.asked("invoke")
        event = json.loads(given["Payload"])
        if "versions" in event["rawPath"]:
            refused = {"statusCode": 404, "headers": {}, "body": '{"error": "digits has no version v9"}'}
            return {"Payload": io.BytesIO(json.dumps(refused).encode())}
        explained = {
            "version": 2,
            "label": "v2",
            "canary": False,
            "signature": "serving_default",
            "inputs": {"x": "float32, shape (2, 1)"},
            "loaded": True,
            "milliseconds": 3.25,
        }
        headers = {"X-Trainyard-Version": "2", "X-Trainyard-Explain": json.dumps(explained)}
        body = json.dumps({"predictions": [[0.25], [0.75]]})
        answer = {"statusCode": 200, "headers": headers, "body": body}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}


class Events(Client):
    def put_events(self, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.cloud.asked("put_events")
        for each in Entries:
            word, told = each["DetailType"], json.loads(each["Detail"])
            self.cloud.told.append((word, told))
            if word == "schedule":  # the yard does it
                self._change_schedule(**told)
            if word == "stop":  # the yard records the request
                self.cloud.stories[told["run"]].row["stopping"] = stamp(datetime.now(UTC))
        return {"Entries": [{} for _ in Entries]}

    def _change_schedule(self, schedule: str, act: str) -> None:
        if act == "rm":
            del self.cloud.schedules[schedule]
        else:
            paused = stamp(datetime.now(UTC)) if act == "pause" else None
            self.cloud.schedules[schedule] |= {"paused": paused}


class Callers(Client):
    def get_caller_identity(self) -> dict[str, str]:
        self.cloud.asked("get_caller_identity")
        return {"Arn": "arn:aws:iam::123456789012:user/ada", "UserId": "AIDA", "Account": "123456789012"}


CLIENTS = {
    "cloudwatch": Metrics,
    "events": Events,
    "sts": Callers,
    "stepfunctions": States,
    "s3": Buckets,
    "ec2": Machines,
    "ssm": Parameters,
    "lambda": Functions,
}


@dataclass
class Dynamo:
    cloud: Cloud

    def Table(self, name: str) -> Dynamo:  # noqa: N802 - boto3's name
        return self

    def get_item(self, Key: dict[str, str], **_: Any) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.cloud.asked("get_item")
        if Key == {"pk": "patrol", "sk": "money"}:
            now = datetime.now(UTC)
            return {
                "Item": {
                    "month": f"{now:%Y-%m}",
                    "dollars": Decimal("123.45"),
                    "at": serialization.timestamp(now),
                }
            }
        if Key["pk"] == "schedules":
            row = self.cloud.schedules.get(Key["sk"])
            return {"Item": row} if row else {}
        story = self.cloud.stories.get(Key["pk"].removeprefix("run#"))
        return {"Item": story.row} if story else {}

    def query(self, **asked: Any) -> dict[str, Any]:
        self.cloud.asked("query")
        wanted = asked["KeyConditionExpression"]
        if "IndexName" in asked:
            month = wanted_month(wanted)
            rows = [story.row for story in self.cloud.stories.values() if month == story.row["month"]]
            if "FilterExpression" in asked:
                kinds = asked["FilterExpression"].get_expression()["values"][1]
                rows = [row for row in rows if row["kind"] in kinds]
            found = [{key: row[key] for key in INDEXED if key in row} for row in rows]
            return {"Items": sorted(found, key=lambda row: str(row["created"]), reverse=True)}
        partition = str(wanted.get_expression()["values"][1])
        if partition == "schedules":
            return {"Items": [*self.cloud.schedules.values()]}
        if partition.startswith("model"):
            return {"Items": self.cloud.models.get(partition, [])}
        kind, _, run = partition.partition("#")
        story = self.cloud.stories.get(run)
        if not story:
            return {"Items": []}
        if kind == "study":
            return {"Items": story.trials}
        return {"Items": story.timeline if kind == "timeline" else [story.row, *story.rows]}


def wanted_month(condition: Any) -> str:
    month = condition.get_expression()["values"][0]
    return str(month.get_expression()["values"][1])


# --- the stories
def cloud(runs: int = 0, points: int = 400, now: datetime | None = None) -> Cloud:
    """Return the five stories, a study, two bakes, and other runs in the given number, each with a curve."""
    from tests.unit.ui.canned_models import models
    from tests.unit.ui.canned_schedules import schedules
    from tests.unit.ui.canned_study import study

    now = now or datetime.now(UTC)
    stories = [training(now, points), waiting(now), failed(now), interrupted(now), refused(now), *study(now)]
    bakes = [bake(now, "succeeded"), bake(now, "failed")]
    made = Cloud([*stories, *bakes, *(other(now, number) for number in range(runs))], instances(now))
    made.images = list(images(now))
    made.models = models(now)
    made.schedules = {row["name"]: row for row in schedules(now)}
    return made


INDEXED = ("pk", "sk", BY_MONTH, "created", *LISTED)
"""The attributes of a row in the index of runs."""


def last_launch(pool: str, hosts: int, price: Decimal) -> dict[str, Any]:
    return {"pool": pool, "market": "spot", "gang": hosts, "price": price}


def run_row(run: str, created: datetime, **more: Any) -> dict[str, Any]:
    return {
        "pk": f"run#{run}",
        "sk": "run",
        "kind": "train",
        "state": "Train",
        "attempt": 1,
        "created": stamp(created),
        "month": f"{created:%Y-%m}",
        "execution_arn": f"{EXECUTION}:{run}",
        "name": run.rpartition("-")[0],
        "submitter": "ada",
        "labels": {},
        "args": {"lr": "0.5", "epochs": "3"},
        "image_id": "ami-00000003",
        "job": {
            "name": run.rpartition("-")[0],
            "limits": {"dollars": Decimal(5), "hours": Decimal(2)},
            "program": {"args": {"lr": Decimal("0.5"), "epochs": Decimal(3)}},
        },
        **more,
    }


def host_row(instance: str, launched: datetime, **more: Any) -> dict[str, Any]:
    return {
        "pk": "x",
        "sk": f"host#{instance}",
        "attempt": 1,
        "type": "g6.xlarge",
        "zone": "us-east-1a",
        "market": "spot",
        "price": Decimal("0.3613"),
        "on_demand_price": Decimal("0.8048"),
        "address": "10.0.1.5",
        "launched": stamp(launched),
        **more,
    }


def launch_request(number: int, at: datetime, pool: str, **more: Any) -> dict[str, Any]:
    return {
        "pk": "x",
        "sk": f"launch-request#0001#{number:04}#0",
        "token": "t",
        "at": stamp(at),
        "capacity_pool": pool,
        **more,
    }


def attempt_row(number: int, launched: datetime, **more: Any) -> dict[str, Any]:
    return {
        "pk": "x",
        "sk": f"attempt#{number:04}",
        "candidate": {"pool": POOL},
        "hosts": [],
        "launched": stamp(launched),
        **more,
    }


def event(at: datetime, word: str, source: str = "workflow", **more: Any) -> dict[str, Any]:
    return {
        "pk": "x",
        "sk": f"{stamp(at)}#{word}",
        "at": stamp(at),
        "source": source,
        "event": word,
        **more,
    }


def plan(*zones: str) -> dict[str, Any]:
    candidates = [
        {
            "type": kind,
            "zone": zone,
            "subnet": f"subnet-{zone}",
            "market": market,
            "price": price,
            "on_demand_price": Decimal("0.8048"),
        }
        for kind, price in (("g6.xlarge", Decimal("0.3613")), ("g5.xlarge", Decimal("0.4212")))
        for zone in zones
        for market in ("spot", "on_demand")
    ]
    whole = {
        "excluded": [],
        "image": "ami-00000003",
        "gang": 1,
        "hourly_cap": None,
        "reason": "cheapest first",
    }
    return {
        "pk": "x",
        "sk": "plan",
        "candidates": candidates,
        "made": stamp(datetime(2026, 11, 21, tzinfo=UTC)),
        **whole,
    }


def refusal(number: int, at: datetime, pool: str, kind: str = "capacity") -> dict[str, Any]:
    code = {"capacity": "InsufficientInstanceCapacity", "quota": "MaxSpotInstanceCountExceeded"}[kind]
    reason = {
        "capacity": "There is no Spot capacity available that matches your request.",
        "quota": "Max spot instance count exceeded",
    }
    return launch_request(number, at, pool, answer="refused", refusal=kind, code=code, reason=reason[kind])


def log(host: str, instance: str, lines: Iterable[tuple[datetime, str]]) -> bytes:
    return "".join(f"{stamp(at)} {host} {instance} | {text}\n" for at, text in lines).encode()


def training(now: datetime, points: int) -> Story:
    begun = now - timedelta(minutes=24)
    at = Clock(begun)
    losses = [
        2.3 * exp(-3 * step / points) + 0.08 + 0.05 * sin(step * 12.9898) * exp(-step / points)
        for step in range(points)
    ]
    samples = [{"step": 10 * (number + 1), "loss": loss} for number, loss in enumerate(losses)]
    reached = [1 - 0.9 * exp(-4 * number / 40) for number in range(1, 41)]
    curves: dict[str, list[float | str]] = {
        "learning_rate": [0.1 * 0.93**number for number in range(40)],
        "val/loss": [1.9 * (1.02 - value) + 0.1 + 0.02 * sin(7 * value) for value in reached],
        "val/accuracy": [*reached],
        "gradients/norm": ["NaN" if number == 17 else 3 + sin(number) for number in range(40)],
    }
    scalars = {
        name: [
            [points * (number + 1) // 4, value, int(at(95).timestamp()) + 30 * number, number]
            for number, value in enumerate(values)
        ]
        for name, values in curves.items()
    }
    cluster = {
        "hosts": [
            {"instance": "i-0aaa", "role": "chief", "index": 0},
            {"instance": "i-0bbb", "role": "worker", "index": 1},
        ]
    }
    steps = 10 * points
    return Story(
        row=run_row(
            TRAINING,
            begun,
            last_launch=last_launch(POOL, 2, Decimal("0.7226")),
            labels={"team": "vision", "sweep": "lr"},
            progress={
                "step": steps,
                "steps": steps * 3 // 2,
                "epoch": 2,
                "loss": Decimal(str(losses[-1])),
                "accuracy": Decimal("0.943"),
                "steps_per_second": Decimal("12.4"),
            },
        ),
        rows=[
            plan("us-east-1a", "us-east-1b"),
            refusal(0, at(8), "g6.xlarge in us-east-1b, spot"),
            launch_request(1, at(10), POOL, answer="launched"),
            attempt_row(1, at(12), started=stamp(at(95)), checkpointed=Decimal(steps - 60), from_step=0),
            host_row("i-0aaa", at(12)),
            host_row("i-0bbb", at(12)),
        ],
        timeline=[
            event(at(2), "admitted"),
            event(at(5), "planned"),
            event(at(12), "launched", reason=POOL),
            event(at(80), "ready", "host", instance="i-0aaa"),
            event(at(90), "ready", "host", instance="i-0bbb"),
            *(
                event(at(second), "checkpointed", "host", instance="i-0aaa", detail={"step": Decimal(second)})
                for second in range(200, 1400, 200)
            ),
        ],
        states=[
            (at(0), "Admit"),
            (at(3), "Plan"),
            (at(7), "Launch"),
            (at(14), "AwaitHosts"),
            (at(95), "Train"),
        ],
        files={
            "job.json": b"{}",
            "metrics.json": json.dumps({"samples": samples, "scalars": scalars}).encode(),
            "attempts/1/cluster.json": json.dumps(cluster).encode(),
            "attempts/1/logs/chief-0/00000001.log": log(
                "chief-0",
                "i-0aaa",
                (
                    (at(100 + n), f"step {n}  loss {2.3 * exp(-n / 300):.4f}  12.4 steps/s")
                    for n in range(1200)
                ),
            ),
            "attempts/1/logs/worker-1/00000001.log": log(
                "worker-1", "i-0bbb", ((at(100 + 60 * n), f"epoch {n} <b>begins</b>") for n in range(20))
            ),
            "checkpoints/latest.json": b"{}",
            "checkpoints/00000100/variables": b"x" * 20_000,
            "tensorboard/events.1": b"x" * 5_000,
        },
    )


def waiting(now: datetime) -> Story:
    begun = now - timedelta(minutes=7)
    at = Clock(begun)
    pools = [f"{kind} in us-east-1{zone}, spot" for kind in ("g6.xlarge", "g5.xlarge") for zone in "ab"]
    waits = {
        "what": "capacity",
        "since": stamp(at(20)),
        "asks": stamp(at(50)),
        "seconds": Decimal(30),
        "until": stamp(at(3600)),
        "reason": "all pools refused",
        "refused": {"capacity": Decimal(3), "quota": Decimal(1)},
    }
    looks = [
        (at(20 + 30 * n + extra), name)
        for n in range(13)
        for extra, name in ((0, "Wait for capacity"), (29, "Launch"))
    ]
    return Story(
        row=run_row(WAITING, begun, state="Wait for capacity", waiting=waits, submitter="grace"),
        rows=[
            plan("us-east-1a", "us-east-1b"),
            *(
                refusal(4 * look + n, at(15 + 30 * look), pool, "quota" if n == 3 else "capacity")
                for look in range(13)
                for n, pool in enumerate(pools)
            ),
        ],
        timeline=[
            event(at(2), "admitted"),
            event(at(20), "waits", reason="4 pools refused (3 no room, 1 quota)"),
        ],
        states=[(at(0), "Admit"), (at(4), "Plan"), (at(9), "Launch"), *looks],
        files={"job.json": b"{}"},
    )


def bake(now: datetime, outcome: str) -> Story:
    begun = now - timedelta(days=2)
    ended: dict[str, Any] = {"outcome": outcome, "ended": stamp(begun + timedelta(minutes=9))}
    if outcome == "succeeded":
        ended |= {"image": "ami-0123456789abcdef0"}
    else:
        ended |= {"reason": "the test tensorflow-sees-the-gpu failed: no GPU is visible to TensorFlow 2.21.0"}
    return Story(
        row=run_row(f"gpu-{outcome}-84914ccd", begun, kind="bake", state="Conclude", **ended),
        status=outcome.upper(),
    )


def failed(now: datetime) -> Story:
    begun = now - timedelta(hours=3)
    at = Clock(begun)
    reason = f"the program on chief 0 ended with exit code 1:\n{WORDS}"
    cost = {"dollars": 0.031, "hours": 0.09, "saved_dollars": 0.038}
    return Story(
        row=run_row(
            FAILED,
            begun,
            state="Failed",
            outcome="failed",
            error="ProgramFailed",
            reason=reason,
            ended=stamp(at(310)),
            dollars=Decimal("0.031"),
            saved_dollars=Decimal("0.038"),
            last_launch=last_launch(POOL, 1, Decimal("0.3613")),
            submitter="linus",
        ),
        rows=[
            plan("us-east-1a"),
            launch_request(0, at(9), POOL, answer="launched"),
            attempt_row(
                1, at(12), started=stamp(at(90)), ended=stamp(at(300)), ending="failed", reason=reason
            ),
            host_row("i-0ccc", at(12), ended=stamp(at(305))),
        ],
        timeline=[
            event(at(12), "launched", reason=POOL),
            event(at(300), "failed", "host", instance="i-0ccc", reason=reason),
        ],
        states=[
            (at(0), "Admit"),
            (at(4), "Plan"),
            (at(9), "Launch"),
            (at(14), "AwaitHosts"),
            (at(90), "Train"),
            (at(301), "Release"),
            (at(304), "Conclude"),
            (at(310), "Failed"),
        ],
        files={
            "job.json": b"{}",
            "summary.json": json.dumps(
                {"outcome": "failed", "error": "ProgramFailed", "reason": reason, "cost": cost}
            ).encode(),
            "attempts/1/cluster.json": json.dumps(
                {"hosts": [{"instance": "i-0ccc", "role": "chief", "index": 0}]}
            ).encode(),
            "attempts/1/logs/chief-0/00000001.log": log(
                "chief-0", "i-0ccc", ((at(299), line) for line in WORDS.splitlines())
            ),
        },
        status="FAILED",
    )


def interrupted(now: datetime) -> Story:
    begun = now - timedelta(hours=9)
    at = Clock(begun)
    took_back = "EC2 takes i-0ddd back"
    samples = [{"step": 100 * n, "loss": 1.5 * exp(-n / 15) + 0.1} for n in range(1, 61)]
    cluster = {"hosts": [{"instance": "i-0ddd", "role": "chief", "index": 0}]}
    return Story(
        row=run_row(
            INTERRUPTED,
            begun,
            state="Succeeded",
            outcome="succeeded",
            attempt=2,
            ended=stamp(at(5400)),
            dollars=Decimal("0.71"),
            saved_dollars=Decimal("0.66"),
            last_launch=last_launch(OTHER, 1, Decimal("0.4212")),
            progress={
                "step": 6000,
                "steps": 6000,
                "loss": Decimal("0.1275"),
                "steps_per_second": Decimal("1.3"),
            },
        ),
        rows=[
            plan("us-east-1a", "us-east-1b"),
            launch_request(0, at(9), POOL, answer="launched"),
            launch_request(
                1,
                at(2510),
                POOL,
                answer="refused",
                refusal="capacity",
                code="InsufficientInstanceCapacity",
                reason="no Spot capacity",
            ),
            launch_request(2, at(2515), OTHER, answer="launched"),
            attempt_row(
                1,
                at(12),
                started=stamp(at(90)),
                ended=stamp(at(2500)),
                ending="interrupted",
                reason=took_back,
                from_step=0,
                to_step=2600,
                checkpointed=2600,
            ),
            attempt_row(
                2,
                at(2520),
                started=stamp(at(2620)),
                ended=stamp(at(5380)),
                ending="finished",
                from_step=2600,
                to_step=6000,
                checkpointed=6000,
                candidate={"pool": OTHER},
            ),
            host_row("i-0ddd", at(12), ended=stamp(at(2510))),
            host_row(
                "i-0eee", at(2520), ended=stamp(at(5395)), attempt=2, type="g5.xlarge", zone="us-east-1b"
            ),
        ],
        timeline=[
            *(
                event(at(second), "checkpointed", "host", instance="i-0ddd", detail={"step": Decimal(second)})
                for second in range(400, 2500, 400)
            ),
            event(at(2380), "spot warning", "aws", instance="i-0ddd", reason=took_back),
            *(
                event(at(second), "checkpointed", "host", instance="i-0eee", detail={"step": Decimal(second)})
                for second in range(3000, 5380, 400)
            ),
        ],
        states=[
            (at(0), "Admit"),
            (at(4), "Plan"),
            (at(9), "Launch"),
            (at(14), "AwaitHosts"),
            (at(90), "Train"),
            (at(2500), "Recover"),
            (at(2505), "Launch"),
            (at(2520), "AwaitHosts"),
            (at(2620), "Train"),
            (at(5380), "Release"),
            (at(5390), "Conclude"),
            (at(5400), "Succeeded"),
        ],
        files={
            "job.json": json.dumps(ADMITTED).encode(),
            "metrics.json": json.dumps({"samples": samples}).encode(),
            "model/saved_model.pb": b"m" * 40_000,
            "summary.json": json.dumps(
                {"outcome": "succeeded", "cost": {"dollars": 0.71, "hours": 1.5, "saved_dollars": 0.66}}
            ).encode(),
            "model/variables/variables.index": b"i" * 700,
            "timeline.jsonl": b"{}\n",
            "attempts/1/cluster.json": json.dumps(cluster).encode(),
            "attempts/2/cluster.json": json.dumps(
                {"hosts": [{"instance": "i-0eee", "role": "chief", "index": 0}]}
            ).encode(),
            "attempts/1/logs/chief-0/00000001.log": log(
                "chief-0", "i-0ddd", [(at(2400), "saving: EC2 takes this host back")]
            ),
            "attempts/2/logs/chief-0/00000001.log": log(
                "chief-0", "i-0eee", [(at(2640), "restored step 2600"), (at(5370), "done")]
            ),
        },
        status="SUCCEEDED",
    )


def refused(now: datetime) -> Story:
    begun = now - timedelta(days=1)
    reason = "program.modul: there is no such key; program.module is one"
    return Story(
        row=run_row(
            REFUSED,
            begun,
            state="Failed",
            outcome="refused",
            error="JobRefused",
            reason=reason,
            ended=stamp(begun + timedelta(seconds=3)),
            dollars=Decimal(0),
            attempt=0,
            job=None,
        ),
        states=[(begun, "Admit"), (begun + timedelta(seconds=2), "Conclude")],
        files={
            "summary.json": json.dumps(
                {"outcome": "refused", "error": "JobRefused", "reason": reason}
            ).encode()
        },
        status="FAILED",
    )


def other(now: datetime, number: int, minutes: int = 37) -> Story:
    """Return one of the other runs."""
    begun = now - timedelta(minutes=minutes * (number + 3))
    ended = stamp(begun + timedelta(minutes=30))
    outcome = "failed" if number % 9 == 4 else "succeeded"
    progress = {
        "step": 900,
        "steps": 900,
        "loss": Decimal(str(round(0.1 + number % 7 / 50, 3))),
        "steps_per_second": Decimal(9),
    }
    return Story(
        row=run_row(
            f"{('mnist', 'cifar', 'text')[number % 3]}-{number:08x}",
            begun,
            state="Succeeded",
            outcome=outcome,
            ended=ended,
            reason="hosts went away" if outcome == "failed" else None,
            progress=progress,
            last_launch=last_launch(POOL, 1 + number % 4, Decimal(1)),
            dollars=Decimal(str(round(0.05 + number % 13 * 0.21, 2))),
            submitter=("ada", "grace", "linus")[number % 5 % 3],
            labels={"team": ("vision", "speech")[number % 4 // 2]} if number % 2 else {},
            scalars={"val/accuracy": Decimal(str(round(0.9 + number % 7 / 100, 3)))},
        ),
        status="FAILED" if outcome == "failed" else "SUCCEEDED",
    )


def instances(now: datetime) -> Iterator[dict[str, Any]]:
    for instance, run, state, verdict in (
        ("i-0aaa", TRAINING, "running", "keep"),
        ("i-0bbb", TRAINING, "running", "keep"),
        ("i-0fff", "notebook-11112222", "running", "stop-idle"),
    ):
        tags = {"run": run, "price": "0.3613", "verdict": f"{verdict} {stamp(now - timedelta(minutes=12))}"}
        yield {
            "InstanceId": instance,
            "InstanceType": "g6.xlarge",
            "Placement": {"AvailabilityZone": "us-east-1a"},
            "InstanceLifecycle": "spot",
            "State": {"Name": state},
            "LaunchTime": now - timedelta(minutes=23),
            "Tags": [{"Key": f"trainyard:{key}", "Value": value} for key, value in tags.items()],
        }


def images(now: datetime) -> Iterator[dict[str, Any]]:
    for number, kind, parent, days in (
        (1, "baked", "ami-base", 40),
        (2, "baked", "ami-base", 21),
        (3, "baked", "ami-base", 3),
        (4, "snapshot", "ami-00000003", 1),
        (5, "snapshot", "ami-00000004", 0),
    ):
        tags = {
            "kind": kind,
            "family": "gpu" if kind == "baked" else "digits",
            "parent": parent,
            "tensorflow": "2.21.0",
            "cuda": "12.5",
            "driver": "570.86",
            "run": f"bake-{number}",
        }
        tags |= {"tests": "8 passed, 2 skipped"} if kind == "baked" else {}
        yield {
            "ImageId": f"ami-{number:08}",
            "Name": f"trainyard-{number}",
            "State": "available",
            "CreationDate": stamp(now - timedelta(days=days)),
            "BlockDeviceMappings": [{"Ebs": {"VolumeSize": 100}}],
            "Tags": [{"Key": f"trainyard:{key}", "Value": value} for key, value in tags.items()],
        }


if __name__ == "__main__":
    from trainyard.ui.serve import serve

    runs, points, port = (int(word) for word in [*sys.argv[1:], *("500", "400", "0")[len(sys.argv) - 1 :]])
    shown = cloud(runs, points)
    serve(shown.yard, shown.yard(), port, lambda address, _: print(address, flush=True))
