"""The host agent against S3, EventBridge and IAM: what a run sees of one host."""

import io
import json
import sys
import tarfile
import textwrap
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.contract.conftest import ACCOUNT, REGION, Cloud, Credentials, allow, eventually
from training.host import orders
from training.host.agent import Agent, post_of
from training.host.metadata import Identity, Metadata, Notice
from training.host.orders import Order
from training.host.places import Places

INSTANCE, IMAGE = "i-0123456789abcdef0", "ami-0123456789abcdef0"
PROGRAM = """
import hashlib, json, os, pathlib, signal, sys, time

told = os.environ
folder = pathlib.Path(told["TRAINYARD_CHECKPOINTS"])
restored = max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=0)
print("data", pathlib.Path(told["TRAINYARD_DATA_TRAIN"], "sub/a.txt").read_text(), "restored", restored, flush=True)


def save(step):
    half = folder / f"{step}.half"
    half.mkdir()
    weights = f"weights of {step}"
    (half / "variables").write_text(weights)
    sums = {"variables": hashlib.sha256(weights.encode()).hexdigest()}
    (half / "facts.json").write_text(json.dumps({"step": step, "files": sums}))
    half.replace(folder / f"{step:08d}")


def leave(*_):
    save(restored + 7)
    sys.exit(75)


if sys.argv[1:] == ["--fail"]:
    raise ValueError("the labels are strings")
signal.signal(signal.SIGTERM, leave)
if not restored:
    save(5)
    with open(told["TRAINYARD_PROGRESS"], "a") as lines:
        lines.write(json.dumps({"step": 5, "steps": 20, "loss": 0.5}) + "\\n")
    time.sleep(60)
model = pathlib.Path(told["TRAINYARD_MODEL"])
model.mkdir(parents=True)
(model / "saved_model.pb").write_text("model")
pathlib.Path(told["TRAINYARD_METRICS"]).write_text(json.dumps({"accuracy": 0.99, "history": [1]}))
"""


class MetadataService(ThreadingHTTPServer):
    """What of the instance metadata service the agent asks for; with IMDSv2's tokens."""

    def __init__(self, tags: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), MetadataAnswers)
        self.pages = {
            "meta-data/instance-id": INSTANCE,
            "meta-data/placement/region": REGION,
            "meta-data/local-ipv4": "10.0.1.5",
            "meta-data/ami-id": IMAGE,
            "meta-data/tags/instance": "\n".join(tags),
        } | {f"meta-data/tags/instance/{key}": value for key, value in tags.items()}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def client(self) -> Metadata:
        return Metadata(f"127.0.0.1:{self.server_port}")


class MetadataAnswers(BaseHTTPRequestHandler):
    server: MetadataService

    def do_PUT(self) -> None:
        self._answer(200, "token")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "token":
            self._answer(401, "")
            return
        page = self.server.pages.get(self.path.removeprefix("/latest/"))
        self._answer(404 if page is None else 200, page or "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        return


@dataclass
class Yard:
    """A bucket, a bus with a queue that hears everything, and one host on this machine's disk."""

    cloud: Cloud
    root: Path
    run: str = field(default_factory=lambda: f"run-{uuid.uuid4().hex[:8]}")
    heard: list[dict[str, Any]] = field(default_factory=list)
    powered_off: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = f"yard-{uuid.uuid4().hex[:8]}"
        self.bucket = self.bus = name
        self.cloud.client("s3").create_bucket(Bucket=name)
        sqs, events = self.cloud.client("sqs"), self.cloud.client("events")
        self.queue = sqs.create_queue(QueueName=name)["QueueUrl"]
        events.create_event_bus(Name=name)
        pattern = json.dumps({"source": ["trainyard.host"]})
        events.put_rule(Name=name, EventBusName=name, EventPattern=pattern)
        target = {"Id": "queue", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"}
        events.put_targets(Rule=name, EventBusName=name, Targets=[target])
        self.places.python.parent.mkdir(parents=True)
        self.places.python.symlink_to(sys.executable)
        self.places.software.mkdir(parents=True)

    @property
    def places(self) -> Places:
        return Places(self.root)

    def put(self, key: str, body: bytes | str) -> None:
        self.cloud.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def read(self, key: str) -> str:
        body: bytes = self.cloud.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body.decode()

    def keys(self, prefix: str) -> list[str]:
        found = self.cloud.client("s3").list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in found.get("Contents", [])]

    def prepare(self, **changes: Any) -> None:
        """Program, data and job in the bucket."""
        self.put("programs/p.tar.gz", packed_program())
        self.put("data/d/sub/a.txt", "hello")
        job: dict[str, Any] = {
            "program": {"source": f"s3://{self.bucket}/programs/p.tar.gz", "module": "mine", "args": {}},
            "data": {"train": {"source": f"s3://{self.bucket}/data/d/", "sharding": "none"}},
            "cluster": {"strategy": "single", "workers": 1, "parameter_servers": 0, "evaluator": False},
            "checkpoints": {"steps": 0, "seconds": 120.0, "keep": 3},
            "limits": {"wait_minutes": 60},
        } | changes
        self.put(f"runs/{self.run}/job.json", json.dumps(job))
        self.job = job

    def start_agent(self) -> MetadataService:
        service = MetadataService(
            {
                "trainyard:run": self.run,
                "trainyard:attempt": "1",
                "trainyard:bucket": self.bucket,
                "trainyard:bus": self.bus,
                "trainyard:lease": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
            }
        )
        identity = service.client.identity()
        post = post_of(identity, now=datetime.now(UTC))
        assert post
        agent = Agent(self.places, service.client, identity, post, power_off=self.powered_off.append)
        self.agent = agent
        threading.Thread(target=agent.work, daemon=True).start()
        return service

    def order(self, word: str, attempt: int, *, checkpoint: dict[str, Any] | None = None) -> None:
        cluster = {
            "run": self.run,
            "attempt": attempt,
            "strategy": "single",
            "port": 2222,
            "hosts": [{"instance": INSTANCE, "role": "chief", "index": 0, "address": "10.0.1.5"}],
            "checkpoint": checkpoint,
            "deadline": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
            "job": self.job,
        }
        if word == "start":
            self.put(f"runs/{self.run}/attempts/{attempt}/cluster.json", json.dumps(cluster))
        orders.give(Order(word, self.run, attempt), self.places)

    def hear(self, word: str, attempt: int = 1) -> dict[str, Any]:
        """The signal of this word and attempt, once it is there."""

        def look() -> dict[str, Any] | None:
            sqs = self.cloud.client("sqs")
            for message in sqs.receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10).get(
                "Messages", []
            ):
                self.heard.append(json.loads(message["Body"]))
                sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
            return next(
                (
                    event["detail"]
                    for event in self.heard
                    if event["detail-type"] == word and event["detail"]["attempt"] == attempt
                ),
                None,
            )

        found: dict[str, Any] = eventually(look, 30)
        return found


def packed_program() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo("mine.py")
        code = textwrap.dedent(PROGRAM).encode()
        member.size = len(code)
        tar.addfile(member, io.BytesIO(code))
    return packed.getvalue()


@pytest.fixture
def yard(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yard]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud.endpoint)
    become(monkeypatch, Credentials())
    made = Yard(cloud, tmp_path)
    made.prepare()
    yield made
    orders.give(Order("stop", made.run, 99), made.places)


def become(monkeypatch: pytest.MonkeyPatch, who: Credentials) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", who.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", who.secret)
    if who.token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", who.token)
    else:
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)


def test_a_host_trains_is_stopped_and_goes_on_from_its_checkpoint(yard: Yard) -> None:
    yard.start_agent()
    assert yard.hear("ready")["address"] == "10.0.1.5"
    yard.order("start", 1)
    assert yard.hear("started")["role"] == "chief"
    saved = yard.hear("checkpointed")
    assert (saved["step"], saved["key"]) == (5, f"runs/{yard.run}/checkpoints/00000005/")
    assert yard.hear("progress")["loss"] == 0.5

    yard.order("stop", 1)
    stopped = yard.hear("stopped")
    assert (stopped["step"], stopped["why"]) == (7, "asked")
    latest = json.loads(yard.read(f"runs/{yard.run}/checkpoints/latest.json"))
    assert (latest["step"], latest["kind"], latest["files"]["variables"]) == (7, "step", 12)
    assert yard.hear("ready", attempt=2)

    yard.order("start", 2, checkpoint={"step": 7, "key": latest["key"]})
    finished = yard.hear("finished", attempt=2)
    assert finished["metrics"] == {"accuracy": 0.99}
    assert yard.read(f"runs/{yard.run}/model/saved_model.pb") == "model"
    assert "data hello restored 7" in yard.read(f"runs/{yard.run}/attempts/2/logs/chief-0.log")
    assert "data hello restored 0" in yard.read(f"runs/{yard.run}/attempts/1/logs/chief-0.log")


def test_a_spot_notice_brings_the_checkpoint_away_in_time(yard: Yard) -> None:
    service = yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    at = datetime.now(UTC) + timedelta(minutes=2)
    service.pages["meta-data/spot/instance-action"] = json.dumps(
        {"action": "terminate", "time": at.isoformat()}
    )
    assert yard.hear("stopped")["why"] == "interrupted"
    assert json.loads(yard.read(f"runs/{yard.run}/checkpoints/latest.json"))["step"] == 7


def test_a_machine_that_goes_down_lets_the_program_save_first(yard: Yard) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    yard.agent.go_down(15, None)
    assert yard.hear("stopped")["why"] == "interrupted"
    assert json.loads(yard.read(f"runs/{yard.run}/checkpoints/latest.json"))["step"] == 7


def test_a_cluster_file_of_another_version_is_said_to_be_one(yard: Yard) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.put(f"runs/{yard.run}/attempts/1/cluster.json", '{"run": "r"}')
    orders.give(Order("start", yard.run, 1), yard.places)
    failed = yard.hear("failed")
    assert failed["final"]
    assert "bake the image anew" in failed["reason"]


def test_the_programs_own_error_is_told_with_its_last_lines(yard: Yard) -> None:
    yard.prepare(program={**yard.job["program"], "args": {"fail": True}})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert (failed["kind"], failed["exit_code"]) == ("program", 1)
    assert failed["reason"].endswith("ValueError: the labels are strings")
    assert "Traceback" in failed["tail"]
    assert "Traceback" in yard.read(f"runs/{yard.run}/attempts/1/logs/chief-0.log")


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        (
            {"data": {"train": {"source": "s3://{bucket}/data/none/", "sharding": "none"}}},
            "host",
            "data.train: there is no object at s3://",
        ),
        (
            {"program": {"module": "mine", "source": "s3://{bucket}/programs/none.tar"}},
            "host",
            "does not exist",
        ),
        (
            {"program": {"module": "mine", "source": "s3://{bucket}/data/d/sub/a.txt"}},
            "program",
            "not a whole tar",
        ),
        (
            {"program": {"module": "yours", "source": "s3://{bucket}/programs/p.tar.gz"}},
            "program",
            "yours cannot be found",
        ),
    ],
    ids=["data", "source", "no tar", "module"],
)
def test_what_cannot_get_better_is_said_once_and_is_final(
    yard: Yard, changes: dict[str, Any], kind: str, words: str
) -> None:
    yard.prepare(**json.loads(json.dumps(changes).replace("{bucket}", yard.bucket)))
    yard.start_agent()
    failed = yard.hear("failed")
    assert (failed["kind"], failed["final"]) == (kind, True)
    assert words in failed["reason"]


def test_a_missing_permission_is_named(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = f"arn:aws:s3:::{yard.bucket}/*"
    become(
        monkeypatch,
        yard.cloud.acting_as(
            allow("events:PutEvents"),
            allow(["s3:PutObject", "s3:DeleteObject"], everything),
            allow("s3:GetObject", f"arn:aws:s3:::{yard.bucket}/runs/*"),
            allow("s3:ListBucket"),
        ),
    )
    yard.start_agent()
    failed = yard.hear("failed")
    assert failed["final"]
    assert f"s3:GetObject on s3://{yard.bucket}/" in failed["reason"]


def test_a_host_that_may_not_speak_leaves_its_last_words_and_ends(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(monkeypatch, yard.cloud.acting_as(allow("s3:*")))
    yard.start_agent()
    eventually(lambda: yard.powered_off)
    words = json.loads(yard.read(f"runs/{yard.run}/attempts/1/last-words/{INSTANCE}.json"))
    assert (words["signal"], words["final"], words["unsaid"]) == ("failed", True, "ready")
    assert "events:PutEvents" in words["reason"]


@pytest.mark.parametrize("lacking", ["trainyard:run", "trainyard:attempt"])
def test_a_host_without_an_attempt_stays_quiet(lacking: str) -> None:
    tags = {"trainyard:run": "r", "trainyard:attempt": "1", "trainyard:bucket": "b", "trainyard:bus": "b"}
    del tags[lacking]
    assert post_of(Identity(INSTANCE, REGION, "10.0.1.5", IMAGE, tags), now=datetime.now(UTC)) is None


def test_a_token_that_expired_is_asked_for_anew(tmp_path: Path) -> None:
    service = MetadataService({})
    client = service.client
    client._token = "expired"
    assert client.notice() is None
    service.pages["meta-data/spot/instance-action"] = (
        '{"action": "terminate", "time": "2026-11-20T12:00:00Z"}'
    )
    assert client.notice() == Notice("terminate", datetime(2026, 11, 20, 12, tzinfo=UTC))
