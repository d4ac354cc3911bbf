"""The host agent with S3, EventBridge and IAM: the effects of one host on a run."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.contract.agent.host import CREDENTIALS, IMAGE, INSTANCE, MetadataService, Yard, become
from tests.contract.conftest import REGION, allow, eventually
from training.host import orders
from training.host.agent.tags import run_tags
from training.host.metadata import Identity, InterruptionNotice
from training.host.program import silence
from training.host.reporting import progress
from training.host.reporting.results import describe_missing_results
from trainyard.protocol.orders import Order, OrderKind

PROGRAM = """
import hashlib, json, os, pathlib, signal, sys, time

told = os.environ
folder = pathlib.Path(told["TRAINYARD_CHECKPOINTS"])
restored = max((int(path.name) for path in folder.iterdir() if path.name.isdigit()), default=0)
print("data", pathlib.Path(told["TRAINYARD_DATA_TRAIN"], "sub/a.txt").read_text(), "restored", restored, flush=True)


def save(step):
    half = folder / f".trainyard-partial-{step}"
    half.mkdir()
    weights = f"weights of {step}"
    (half / "variables").write_text(weights)
    sums = {"variables": hashlib.sha256(weights.encode()).hexdigest()}
    (half / "trainyard-metadata.json").write_text(json.dumps({"step": step, "files": sums}))
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


@pytest.fixture(autouse=True)
def program(yard: Yard) -> None:
    yard.prepare(PROGRAM)


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
    assert (latest["step"], latest["at_step"], latest["kind"]) == (7, 7, "step")
    assert yard.read(f"{latest['key']}00000007/variables") == "weights of 7"
    assert yard.hear("ready", attempt=2)

    yard.order("start", 2, checkpoint={"step": 7, "key": latest["key"]})
    finished = yard.hear("finished", attempt=2)
    assert finished["accuracy"] == 0.99
    assert yard.read(f"runs/{yard.run}/model/saved_model.pb") == "model"
    assert "data hello restored 7" in yard.log(2)
    assert "data hello restored 0" in yard.log()
    assert "one account only" not in yard.log(), "properties of the host do not appear in the program's log"


def test_a_host_that_systems_manager_never_learns_of_takes_its_orders_from_the_bucket(yard: Yard) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, ways=["bucket"])
    yard.hear("checkpointed")
    yard.order("stop", 1, ways=["bucket"])
    assert yard.hear("stopped")["why"] == "asked"
    assert yard.hear("ready", attempt=2)


def test_an_order_that_comes_both_ways_and_again_is_obeyed_once(yard: Yard) -> None:
    """Test repeated orders, including one of an ended attempt:

    SSM documents may arrive late, and new agents read the bucket.
    """
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1, ways=["bucket"])
    yard.hear("started")
    yard.order("start", 1, ways=["ssm"])
    yard.hear("checkpointed")
    yard.order("stop", 1)
    yard.hear("ready", attempt=2)
    yard.order("start", 1)
    yard.paths.orders.joinpath("start.json").unlink()
    yard.order("start", 2, checkpoint={"step": 7, "key": yard.latest["key"]}, ways=["bucket"])
    yard.hear("finished", attempt=2)
    said = [event["detail-type"] for event in yard.heard]
    assert (said.count("started"), said.count("stopped"), said.count("finished")) == (2, 1, 1)


def test_a_disk_that_another_run_has_used_begins_anew(yard: Yard) -> None:
    """Test an image of another run's host: the disk's data must not be used for this run."""
    old = {
        yard.paths.state: '{"run": "other", "instance": "i-0other", "attempt": 3, "phase": "running"}',
        yard.paths.orders / "start.json": json.dumps({"kind": "start", "run": yard.run, "attempt": 1}),
        yard.paths.checkpoints / "00000099/trainyard-metadata.json": "{}",
        yard.paths.program_log(1, "chief", 0): "the other run's line\n",
        yard.paths.stamped_log(1, "chief", 0): "2026 chief-0 i-0other | the other run's line\n",
        yard.root / "home/notes": "mine",
    }
    for path, text in old.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    assert yard.latest["step"] == 5
    yard.order("stop", 1)
    yard.hear("stopped")
    assert "the other run's line" not in yard.log()
    assert "restored 0" in yard.log()
    assert (yard.root / "home/notes").read_text() == "mine"


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


def test_a_program_all_of_whose_processes_are_killed_is_to_be_started_again_here(yard: Yard) -> None:
    yard.prepare("import time; time.sleep(60)")
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("started")
    keeper = json.loads(yard.paths.process(1).read_text())["pid"]
    os.killpg(keeper, signal.SIGKILL)
    stopped = yard.hear("stopped")
    assert (stopped["why"], "by SIGKILL together with all its processes" in stopped["reason"]) == (
        "killed",
        True,
    )
    yard.hear("ready", attempt=2)


def test_a_chief_speaks_for_its_host_whatever_its_program_does(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    os.killpg(yard.program_id(), signal.SIGSTOP)
    monkeypatch.setattr(progress, "ALIVE_SECONDS", 0.5)

    def heard() -> int:
        yard.hear("progress")
        return [event["detail-type"] for event in yard.heard].count("progress")

    eventually(lambda: heard() >= 4)


def test_a_program_that_hangs_leaves_and_is_to_be_started_again_here(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("checkpointed")
    os.killpg(yard.program_id(), signal.SIGSTOP)
    monkeypatch.setattr(silence, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(silence, "SILENT_SECONDS", 2.0)
    stopped = yard.hear("stopped")
    assert (stopped["why"], stopped["step"]) == ("hangs", 7)
    assert "[trainyard] for 12 minutes the program has shown no work" in yard.log()
    assert "[trainyard] asking the program to leave: hangs" in yard.log()
    yard.hear("ready", attempt=2)


def test_a_cluster_file_of_another_version_is_said_to_be_one(yard: Yard) -> None:
    yard.start_agent()
    yard.hear("ready")
    yard.put(f"runs/{yard.run}/attempts/1/cluster.json", '{"run": "r"}')
    orders.give(Order(OrderKind.START, yard.run, 1), yard.paths)
    failed = yard.hear("failed")
    assert failed["final"]
    assert "Bake an image of the yard's version: trainyard image bake" in failed["reason"]


def test_the_programs_own_error_is_told_with_its_last_lines(yard: Yard) -> None:
    yard.prepare(PROGRAM, program={"args": {"fail": True}})
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert (failed["kind"], failed["exit_code"]) == ("program", 1)
    assert failed["reason"].endswith("ValueError: the labels are strings")
    assert "Traceback" in failed["tail"]
    assert "Traceback" in yard.log()


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
            "not a complete tar",
        ),
        (
            {"program": {"module": "yours", "source": "s3://{bucket}/programs/p.tar.gz"}},
            "program",
            "yours cannot be found",
        ),
        (
            {"program": {"command": ["torchrnu", "mine.py"], "source": "s3://{bucket}/programs/p.tar.gz"}},
            "program",
            "this host has no such command",
        ),
    ],
    ids=["data", "source", "no tar", "module", "command"],
)
def test_what_cannot_get_better_is_said_once_and_is_final(
    yard: Yard, changes: dict[str, Any], kind: str, words: str
) -> None:
    yard.prepare(PROGRAM, **json.loads(json.dumps(changes).replace("{bucket}", yard.bucket)))
    yard.start_agent()
    failed = yard.hear("failed")
    assert (failed["kind"], failed["final"]) == (kind, True)
    assert words in failed["reason"]


def test_a_missing_permission_is_named(yard: Yard) -> None:
    everything = f"arn:aws:s3:::{yard.bucket}/*"
    yard.give(
        yard.cloud.acting_as(
            allow(["s3:PutObject", "s3:DeleteObject"], everything),
            allow("s3:GetObject", f"arn:aws:s3:::{yard.bucket}/runs/*"),
            allow("s3:ListBucket"),
        )
    )
    yard.start_agent()
    failed = yard.hear("failed")
    assert failed["final"]
    assert f"the role of runs lacks s3:GetObject on s3://{yard.bucket}/" in failed["reason"]


def test_a_host_that_may_not_speak_leaves_its_last_words_and_ends(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.cloud.client("s3").delete_object(Bucket=yard.bucket, Key=CREDENTIALS)
    become(monkeypatch, yard.cloud.acting_as(allow("s3:*")))
    yard.start_agent()
    eventually(lambda: yard.powered_off)
    words = json.loads(yard.read(f"runs/{yard.run}/attempts/1/final-reports/AROAHOST:{INSTANCE}.json"))
    assert (words["signal"], words["final"], words["unsaid"]) == ("failed", True, "credentials")
    assert "events:PutEvents" in words["reason"]


@pytest.mark.parametrize("lacking", ["trainyard:run", "trainyard:attempt"])
def test_a_host_without_an_attempt_stays_quiet(lacking: str) -> None:
    tags = {"trainyard:run": "r", "trainyard:attempt": "1", "trainyard:bucket": "b", "trainyard:bus": "b"}
    del tags[lacking]
    assert run_tags(Identity(INSTANCE, REGION, "10.0.1.5", IMAGE, tags), now=datetime.now(UTC)) is None


def test_a_token_that_expired_is_asked_for_anew(tmp_path: Path) -> None:
    service = MetadataService({})
    client = service.client
    client._token = "expired"
    assert client.interruption_notice() is None
    service.pages["meta-data/spot/instance-action"] = (
        '{"action": "terminate", "time": "2026-11-20T12:00:00Z"}'
    )
    assert client.interruption_notice() == InterruptionNotice(
        "terminate", datetime(2026, 11, 20, 12, tzinfo=UTC)
    )


COUNTS = """
import time

for number in range(60):
    print("line", number, flush=True)
    time.sleep(0.1)
"""


def test_an_agent_that_was_killed_is_followed_by_one_that_knows_everything(yard: Yard) -> None:
    yard.prepare(COUNTS)
    service = yard.metadata()
    with yard.agent_process(service):
        yard.hear("ready")
        yard.order("start", 1)
        eventually(lambda: "| line 5\n" in yard.log())
    before = yard.log().splitlines()
    with yard.agent_process(service):
        yard.hear("finished")
    lines = yard.log().splitlines()
    assert lines[: len(before)] == before
    said = [line.partition(" | ")[2] for line in lines]
    assert said[1:] == [
        *(f"line {number}" for number in range(60)),
        "[trainyard] the program ended with exit code 0",
        f"[trainyard] {describe_missing_results(keeps_outputs=True)}",
    ]
    assert [event["detail-type"] for event in yard.heard].count("started") == 1


FILLS_THE_DISK = """
import json, os, pathlib, hashlib

folder = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"])
half = folder / ".trainyard-partial-5"
half.mkdir()
(half / "variables").write_text("good")
sums = {"variables": hashlib.sha256(b"good").hexdigest()}
(half / "trainyard-metadata.json").write_text(json.dumps({"step": 5, "files": sums}))
half.replace(folder / "00000005")
print("saved", flush=True)
half = folder / ".trainyard-partial-6"
half.mkdir()
with (half / "variables").open("wb", buffering=0) as variables:
    while True:
        variables.write(b"x" * 65536)
"""


def test_a_full_disk_is_the_reason_and_the_last_good_checkpoint_stays(yard: Yard) -> None:
    yard.prepare(FILLS_THE_DISK)
    with yard.agent_process(yard.metadata(), disk="96m"):
        yard.hear("ready")
        yard.order("start", 1)
        failed = yard.hear("failed")
    assert failed["kind"] == "program"
    assert "the disk of this host is full (0 MB of 0.1 GB are free at " in failed["reason"]
    assert "saved" in failed["tail"]
    assert (yard.latest["step"], yard.latest["before"]) == (5, [])
    assert "| saved\n" in yard.log()
