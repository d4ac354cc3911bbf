"""A host's agent on this machine's disk, with a bucket and a bus of the local cloud."""

import gzip
import io
import json
import subprocess
import sys
import tarfile
import textwrap
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.contract.conftest import ACCOUNT, PATIENCE_SECONDS, REGION, ROOT, Cloud, Credentials, eventually
from training.host import account, orders
from training.host.agent.agent import Agent
from training.host.agent.deadlines.lease import Lease
from training.host.agent.tags import run_tags
from training.host.metadata import Metadata
from training.host.paths import Paths
from trainyard.protocol.orders import Order, OrderKind

INSTANCE, IMAGE = "i-0123456789abcdef0", "ami-0123456789abcdef0"
CREDENTIALS = f"credentials/AROAHOST:{INSTANCE}.json"
Way = Literal["ssm", "bucket"]
BOTH_WAYS: Collection[Way] = ("ssm", "bucket")
"""Ways of an order to a host: an SSM document, and the order in the bucket."""
HOLD = "meta-data/tags/instance/trainyard:hold"
"""Page of the metadata service with the end of the host's hold."""


class MetadataService(ThreadingHTTPServer):
    """The part of the instance metadata service that the agent uses, with IMDSv2's session tokens."""

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
    """A bucket, a bus with a queue for all events, and a host on this machine's disk."""

    cloud: Cloud
    root: Path
    run: str = field(default_factory=lambda: f"run-{uuid.uuid4().hex[:8]}")
    heard: list[dict[str, Any]] = field(default_factory=list)
    powered_off: list[str] = field(default_factory=list)
    fences: list[Collection[str]] = field(default_factory=list)
    started: list[tuple[MetadataService, Agent]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    """More tags of the host."""

    def __post_init__(self) -> None:
        name = f"yard-{uuid.uuid4().hex[:8]}"
        self.name = self.bucket = self.bus = name
        self.cloud.client("s3").create_bucket(Bucket=name)
        self.give(self.cloud.root)
        sqs, events = self.cloud.client("sqs"), self.cloud.client("events")
        self.queue = sqs.create_queue(QueueName=name)["QueueUrl"]
        events.create_event_bus(Name=name)
        pattern = json.dumps({"source": [{"prefix": "trainyard.host/"}]})
        events.put_rule(Name=name, EventBusName=name, EventPattern=pattern)
        target = {"Id": "queue", "Arn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"}
        events.put_targets(Rule=name, EventBusName=name, Targets=[target])
        make_environment(self.paths)
        self.paths.agent.mkdir(parents=True)

    @property
    def paths(self) -> Paths:
        return Paths(self.root)

    def put(self, key: str, body: bytes | str) -> None:
        self.cloud.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def read(self, key: str) -> str:
        body: bytes = self.cloud.client("s3").get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return (gzip.decompress(body) if key.endswith(".jsonl.gz") else body).decode()

    def keys(self, prefix: str) -> list[str]:
        found = self.cloud.client("s3").list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for item in found.get("Contents", [])]

    def give(self, who: Credentials) -> None:
        """Store the run's credentials for the host, as the signal function does."""
        until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        given = {"Version": 1, "AccessKeyId": who.key, "SecretAccessKey": who.secret, "Expiration": until}
        self.put(CREDENTIALS, json.dumps(given | {"SessionToken": who.token or "", "Run": self.run}))

    def prepare(self, code: str, *, program: dict[str, Any] | None = None, **changes: Any) -> None:
        """Upload the program, data and job."""
        self.put("programs/p.tar.gz", packed({"mine.py": textwrap.dedent(code)}))
        self.put("data/d/sub/a.txt", "hello")
        job: dict[str, Any] = {
            "name": "mine",
            "program": {"source": f"s3://{self.bucket}/programs/p.tar.gz", "module": "mine", "args": {}}
            | (program or {}),
            "data": {"train": {"source": f"s3://{self.bucket}/data/d/", "sharding": "none"}},
            "cluster": {
                "strategy": "single",
                "workers": 1,
                "parameter_servers": 0,
                "evaluator": False,
                "chief": "coordinator",
            },
            "checkpoints": {"steps": 0, "seconds": 120.0, "keep": 3},
            "limits": {"wait_minutes": 60},
        } | changes
        self.put(f"runs/{self.run}/job.json", json.dumps(job))
        self.job = job

    def start_agent(self) -> MetadataService:
        service = self.metadata()
        identity = service.client.identity()
        post = run_tags(identity, now=datetime.now(UTC))
        assert post
        self.agent = Agent(
            self.paths,
            service.client,
            identity,
            post,
            account=account.own(),
            put_up_fence=self.fences.append,
            power_off=self.powered_off.append,
        )
        self.started.append((service, self.agent))
        threading.Thread(target=self.agent.work, daemon=True).start()
        return service

    def end(self) -> None:
        """End all threads of the agent, which live in this process."""
        orders.give(Order(OrderKind.STOP, self.run, 99), self.paths)
        for service, agent in self.started:
            service.pages.pop(HOLD, None)
            agent._watchdog.renew(Lease(datetime.now(UTC), "the test is over"))

    def metadata(self) -> MetadataService:
        return MetadataService(
            {
                "trainyard:yard": self.name,
                "trainyard:run": self.run,
                "trainyard:attempt": "1",
                "trainyard:bucket": self.bucket,
                "trainyard:bus": self.bus,
                "trainyard:role": "AROAHOST",
                "trainyard:lease": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
            }
            | self.tags
        )

    @contextmanager
    def agent_process(
        self, service: MetadataService, *, disk: str | None = None
    ) -> Iterator["subprocess.Popen[bytes]"]:
        """Run an agent in a process that can be killed. With `disk` it and its program have a disk of that size."""
        command = [
            sys.executable,
            "-m",
            "tests.contract.agent.process",
            str(self.root),
            f"127.0.0.1:{service.server_port}",
        ]
        if disk:
            prepare = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
            work = self.root / "var"
            work.mkdir()
            unshare = ["unshare", "--user", "--map-root-user", "--mount", "--kill-child", "--fork"]
            command = [*unshare, "sh", "-c", prepare, "sh", disk, str(work), *command]
        agent = subprocess.Popen(command, cwd=ROOT)
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()

    def order(
        self,
        word: str,
        attempt: int,
        *,
        ways: Collection[Way] = BOTH_WAYS,
        checkpoint: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """Send a start or stop order. By default the gang has only this host."""
        cluster = {
            "run": self.run,
            "attempt": attempt,
            "strategy": "single",
            "port": 2222,
            "hosts": [{"instance": INSTANCE, "role": "chief", "index": 0, "address": "10.0.1.5"}],
            "checkpoint": checkpoint,
            "deadline": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        } | changes
        if word == "start":
            self.put(f"runs/{self.run}/attempts/{attempt}/cluster.json", json.dumps(cluster))
        if "bucket" in ways:
            document = {"run": self.run, "attempt": attempt, "kind": word, "hosts": [INSTANCE]}
            self.put(f"runs/{self.run}/order.json", json.dumps(document))
        if "ssm" in ways:
            orders.give(Order(OrderKind(word), self.run, attempt), self.paths)

    @property
    def latest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.read(f"runs/{self.run}/checkpoints/latest.json"))
        return found

    def checkpoint(self, version: dict[str, Any] | None = None) -> dict[str, str]:
        """Return the text of each file in a checkpoint's manifest: the newest checkpoint, or the given one."""
        version = version or self.latest
        prefix = f"runs/{self.run}/checkpoints/"
        manifest = json.loads(self.read(f"{version['key'][:-1]}.json"))
        return {name: self.read(prefix + key) for name, (_, _, _, key) in manifest["files"].items()}

    def log(self, attempt: int = 1, name: str = "chief-0") -> str:
        """Return the program's log in the bucket, or an empty text."""
        return "".join(map(self.read, self.keys(f"runs/{self.run}/attempts/{attempt}/logs/{name}/")))

    def program_id(self, attempt: int = 1) -> int:
        """Return the process group of the running program."""
        return int(json.loads(self.paths.process(attempt).read_text())["pid"])

    def hear(self, word: str, attempt: int = 1, *, within: float = PATIENCE_SECONDS) -> dict[str, Any]:
        """Wait for the signal of this name and attempt."""

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

        try:
            found: dict[str, Any] = eventually(look, within)
        except pytest.fail.Exception as never:
            heard = [(event["detail-type"], event["detail"]["attempt"]) for event in self.heard]
            pytest.fail(f"{never}: {word} of attempt {attempt}; heard {heard}; its log: {self.log(attempt)}")
        return found


def make_environment(paths: Paths) -> None:
    """Create a host's Python environment without packages, 100 times as fast as `python -m venv`."""
    python = Path(sys.executable).resolve()
    environment = paths.python.parent.parent
    paths.python.parent.mkdir(parents=True)
    paths.python.symlink_to(python)
    (environment / "pyvenv.cfg").write_text(f"home = {python.parent}\ninclude-system-site-packages = false\n")
    (environment / "lib/python{}.{}/site-packages".format(*sys.version_info)).mkdir(parents=True)


def packed(files: Mapping[str, str]) -> bytes:
    """Pack a program's source archive from texts by path."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return archive.getvalue()


def become(monkeypatch: pytest.MonkeyPatch, who: Credentials) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", who.key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", who.secret)
    if who.token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", who.token)
    else:
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
