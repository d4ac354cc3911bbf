"""Paths: each starts a run and leads it to the call that needs a permission.

Most permissions are needed on the straight path, the others after faults. A path returns the result that a user sees.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import ClientError

from tests.e2e.conftest import OTHER_BUCKET, READS
from tests.e2e.runs import Runs
from tests.e2e.shelf import retire, shelf_of, waiting_run
from tests.e2e.watch import table_of
from tests.permissions.grants import MANAGED, Grant
from tests.support.notebooks import notebook
from trainyard.client import Run
from trainyard.client.dev import requests
from trainyard.client.errors import StillRunning
from trainyard.client.jobs.submission import begin

ONE = {"cluster": {"workers": 1}, "program": {"args": {"steps": 5}}}
LONG = {"steps": 600, "step-delay": 0.05, "checkpoint-every": 10}
ALIVE = ("pending", "running", "stopping", "shutting-down")
POINTERS = ("/trainyard/image", "/trainyard/image/previous")
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
TYPE = "g6.xlarge"
FETCHED_AT = {200: "g5.2xlarge", 300: "g5.12xlarge"}
"""Types whose on-demand price justifies this rate in MiB/s for 100 GiB (core/capacity/initialization.py)."""


@dataclass(frozen=True)
class Seen:
    """The result of a path."""

    status: str
    cause: str
    """The cause of the execution, or the lost event if no execution exists."""
    summary: dict[str, Any] = field(repr=False)
    run: str = ""
    log: str = field(default="", repr=False)


Path = Callable[[Runs, str], Seen]


def straight(runs: Runs, name: str) -> Seen:
    """Train a few steps on one host."""
    return _seen(runs, runs.start(runs.job(name, **ONE)))


def many_checkpoints(runs: Runs, name: str) -> Seen:
    """Train long enough for old checkpoints to be deleted."""
    args = {"steps": 500, "step-delay": 0.02, "checkpoint-every": 10}
    return _seen(runs, runs.start(runs.job(name, cluster={"workers": 1}, program={"args": args})))


def resumed(runs: Runs, name: str) -> Seen:
    """Continue from the last checkpoint of another run."""
    saves = {"cluster": {"workers": 1}, "program": {"args": {"steps": 5, "checkpoint-every": 2}}}
    before = runs.run(runs.job(f"{name[:30]}-before", **saves))
    return _seen(runs, runs.start(runs.job(name, **ONE, checkpoints={"resume": before.id})))


def from_pool(runs: Runs, name: str) -> Seen:
    """Claim the warm host of another run."""
    pool = {"keep": 1, "minutes": 10}
    runs.run(runs.job(f"{name[:30]}-before", **ONE, pool=pool))
    waiting = {"KeyConditionExpression": "pk = :pool", "ExpressionAttributeValues": {":pool": "pool"}}
    runs.until(
        "a warm host", lambda: any(row.get("ready") for row in table_of(runs).query(**waiting)["Items"])
    )
    return _seen(runs, runs.start(runs.job(name, **ONE)))


def from_elsewhere(runs: Runs, name: str) -> Seen:
    """Read data from another bucket."""
    s3 = runs.yard.session.client("s3")
    s3.create_bucket(Bucket=OTHER_BUCKET)
    s3.put_object(Bucket=OTHER_BUCKET, Key="digits/few/numbers.txt", Body=b"1\n2\n3\n")
    return _seen(runs, runs.start(runs.job(name, **ONE, data={"few": f"s3://{READS}few/"})))


def notebook_executed(runs: Runs, name: str) -> Seen:
    """Execute a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "few.ipynb")
        file.write_text(notebook("1 + 1"))
        return _seen(runs, runs.yard.submit(file, name=name))


def with_events(runs: Runs, name: str) -> Seen:
    """Write events for TensorBoard."""
    program = {"args": {"steps": 5, "events": True}}
    return _seen(runs, runs.start(runs.job(name, cluster={"workers": 1}, program=program)))


def with_secret(runs: Runs, name: str) -> Seen:
    """Pass a secret to the program."""
    ssm, secret = runs.yard.session.client("ssm"), "/trainyard/secrets/permissions"
    ssm.put_parameter(Name=secret, Type="SecureString", Value="kept to itself")
    program = {"secrets": {"WANDB_API_KEY": "permissions"}, "args": {"steps": 5}}
    try:
        return _seen(runs, runs.start(runs.job(name, cluster={"workers": 1}, program=program)))
    finally:
        ssm.delete_parameter(Name=secret)


def program_fails(runs: Runs, name: str) -> Seen:
    """End with an error of the program."""
    job = runs.job(name, cluster={"workers": 1}, program={"args": {"steps": 50, "fail-at": 3}})
    return _seen(runs, runs.start(job))


def host_killed(runs: Runs, name: str) -> Seen:
    """Lose one of two hosts during the training."""
    run = runs.in_mid_training(runs.job(name, program={"args": LONG}))
    runs.cloud.fault("kill", runs.host_of(run, "worker"))
    return _seen(runs, run)


def host_unregistered(runs: Runs, name: str) -> Seen:
    """Lose a host whose peer is not registered in Systems Manager, so that the peer must leave."""
    run = runs.start(runs.job(name, program={"args": LONG}))
    host = runs.until("a gang", lambda: len(up := living(runs, run.id)) == 2 and up)[0]
    runs.cloud.fault("unregister", host)
    runs.until(
        "a checkpoint, or the end", lambda: runs.checkpoint_of(run) or run.execution.status != "RUNNING"
    )
    for other in set(living(runs, run.id)) - {host}:
        runs.cloud.fault("kill", other)
    return _seen(runs, run)


def hosts_stopped(runs: Runs, name: str) -> Seen:
    """Keep on-demand hosts after the run."""
    job = runs.job(name, **ONE, after={"hosts": "stop"}, hardware={"market": "on_demand"})
    return _seen(runs, runs.start(job))


def imaged(runs: Runs, name: str) -> Seen:
    """Make an image of the host after the run."""
    return _seen(runs, runs.start(runs.job(name, **ONE, after={"image": "on_success"})))


def image_of_run_fails(runs: Runs, name: str) -> Seen:
    """Make an image of the host after the run, which fails in EC2."""
    runs.cloud.fault("image-fail")
    try:
        return imaged(runs, name)
    finally:
        runs.cloud.fault("clear")


def imaged_before(runs: Runs, name: str) -> Seen:
    """Make the image before Capture requests it, as after a call whose answer was lost."""
    args = {"steps": 100, "step-delay": 0.05}
    job = runs.job(name, cluster={"workers": 1}, program={"args": args}, after={"image": "on_success"})
    run = runs.start(job)
    host = runs.until("a host", lambda: _living(runs, run))[0]
    made = _image(runs, host, f"{job['name']}-{host}-{run.id}")
    try:
        return _seen(runs, run)
    finally:
        _deregister(runs, made)


IMAGED = (imaged, image_of_run_fails, imaged_before)
"""Paths whose image may fail without a failure of the run."""


def await_hosts_late(runs: Runs, name: str) -> Seen:
    """Lambda throttles AwaitHosts until the hosts are ready, so that it finds the gang complete."""
    with _throttled(runs, "train-await-hosts"):
        run = runs.start(runs.job(name, **ONE))
        runs.until("a host that is ready", lambda: _rows(run, "host#", "ready"))
    return _seen(runs, run)


def await_hosts_too_late(runs: Runs, name: str) -> Seen:
    """Lambda throttles AwaitHosts until the host is lost."""
    with _throttled(runs, "train-await-hosts"):
        run = runs.start(runs.job(name, **ONE, limits={"restarts": 0}))
        host = runs.until("a host", lambda: _living(runs, run))[0]
        runs.cloud.fault("kill", host)
        runs.until("the loss in the ledger", lambda: _rows(run, "attempt#", "ending"))
    return _seen(runs, run)


def finish_unheard(runs: Runs, name: str) -> Seen:
    """Freeze the only host. Its final report is too new for patrol, and Train gets no signal for 150 s."""
    run = runs.in_mid_training(runs.job(name, cluster={"workers": 1}, program={"args": LONG}))
    host = runs.host_of(run, "chief")
    runs.cloud.fault("freeze", host)
    late = datetime.now(UTC) + timedelta(hours=1)
    word = {"run": run.id, "attempt": 1, "instance": host, "at": late.isoformat(), "signal": "finished"}
    runs.yard.bucket.put(f"runs/{run.id}/attempts/1/signals/AROA:{host}.json", json.dumps(word).encode())
    return _seen(runs, run, 300)


def train_too_late(runs: Runs, name: str) -> Seen:
    """Lambda throttles Train until a host is lost."""
    with _throttled(runs, "train-train"):
        run = runs.start(runs.job(name, **ONE, limits={"restarts": 0}))
        runs.until("a whole gang", lambda: _rows(run, "attempt#", "gang_ready"))
        runs.cloud.fault("kill", _living(runs, run)[0])
        runs.until("the loss in the ledger", lambda: _rows(run, "attempt#", "ending"))
    return _seen(runs, run)


def train_late(runs: Runs, name: str) -> Seen:
    """Lambda throttles Train until the program has finished, as after a call whose answer was lost."""
    with _throttled(runs, "train-train"):
        run = runs.start(runs.job(name, **ONE))
        (attempt,) = runs.until("a whole gang", lambda: _rows(run, "attempt#", "gang_ready"))
        now = attempt["gang_ready"]
        _set(runs, attempt, ending="finished", ended=now, reason="the program finished", to_step=5)
    return _seen(runs, run)


def answer_lost(runs: Runs, name: str) -> Seen:
    """Lose the answer of CreateFleet, so that the launched hosts are unknown."""
    runs.cloud.fault("refuse", "*", "*", "*")
    try:
        run = runs.start(runs.job(name, **ONE))
        requests = runs.until(
            "a run that waits", lambda: _waits(run) and _rows(run, "launch-request#", "answer")
        )
        _forget(runs, requests[-1], "answer", "refusal", "code", "reason", "answered")
    finally:
        runs.cloud.fault("clear")
    return _seen(runs, run)


def default_quota(runs: Runs, name: str) -> Seen:
    """Use a quota that was never raised. AWS returns its default of 0, so the run is refused."""
    job = runs.job(name, **ONE, hardware={"instance_types": ["p5.4xlarge"], "max_dollars_per_hour": None})
    return _seen(runs, runs.start(job))


def at_rate(rate: int) -> Path:
    """Return a path with disks initialized at a rate, which has its own launch templates."""

    def path(runs: Runs, name: str) -> Seen:
        hardware = {
            "instance_types": [FETCHED_AT[rate]],
            "market": "on_demand",
            "max_dollars_per_hour": None,
        }
        return _seen(runs, runs.start(runs.job(name, **ONE, hardware=hardware)))

    path.__name__ = f"at_{rate}"
    return path


def in_zone(zone: str) -> Path:
    """Return a path with capacity in one zone only."""

    def path(runs: Runs, name: str) -> Seen:
        for other in ZONES:
            if other != zone:
                runs.cloud.fault("refuse", TYPE, other, "spot")
        try:
            return straight(runs, name)
        finally:
            runs.cloud.fault("clear")

    path.__name__ = f"in_zone_{zone}"
    return path


def upload_unheard(runs: Runs, name: str) -> Seen:
    """Upload a job whose run cannot start. The event is in the dead-letter queue, which has an alarm."""
    _drain(runs)
    runs.upload(runs.job(name, **ONE))
    message = runs.until("the event in the queue of lost events", lambda: _lost(runs))
    return Seen("FAILED", message, {"reason": message})


def recipe_unheard(runs: Runs, name: str) -> Seen:
    """Upload a recipe whose bake cannot start. The event is in the dead-letter queue."""
    _drain(runs)
    begin(runs.yard.bucket, runs.yard.recipe, runs.yard.bucket.read(runs.yard.recipe) or b"")
    message = runs.until("the event in the queue of lost events", lambda: _lost(runs))
    return Seen("FAILED", message, {"reason": message})


def bake(runs: Runs, name: str) -> Seen:
    """Bake from the yard's own image, which contains most packages, then restore parameters and images."""
    with _as_before(runs):
        return _seen(runs, _bake(runs, name), seconds=400)


def bake_in_zone(zone: str) -> Path:
    """Return a path with capacity for a builder in one zone only."""

    def path(runs: Runs, name: str) -> Seen:
        for other in ZONES:
            if other != zone:
                runs.cloud.fault("refuse", "*", other, "*")
        try:
            return bake_quick(runs, name)
        finally:
            runs.cloud.fault("clear")

    path.__name__ = f"bake_in_zone_{zone}"
    return path


def bake_at_rate(rate: int) -> Path:
    """Return a path with a builder whose disk is initialized at a rate."""

    def path(runs: Runs, name: str) -> Seen:
        builder = {"instance_types": [FETCHED_AT[rate]], "market": "on_demand"}
        with _as_before(runs):
            return _seen(runs, _bake(runs, name, builder=builder), seconds=400)

    path.__name__ = f"bake_at_{rate}"
    return path


def rolled_back(runs: Runs, name: str) -> Seen:
    """Return to the previous image."""
    with _as_before(runs):
        previous = {"Name": POINTERS[1], "Value": runs.yard.image(), "Type": "String", "Overwrite": True}
        runs.yard.session.client("ssm").put_parameter(**previous)
        return _seen(runs, runs.yard.start("bake", {"rollback": True}, f"{name[:50]}-{time.time_ns()}"))


def bake_quick(runs: Runs, name: str) -> Seen:
    """Bake with commands that do nothing, as after calls whose answers were lost, then delete the image."""
    return _quick(runs, name, lambda run, builder: None)


def bake_captured(runs: Runs, name: str) -> Seen:
    """Bake quickly, with an image that exists before Capture requests it."""
    return _quick(runs, name, lambda run, builder: _image(runs, builder, f"trainyard-baked-{run}-1"))


def builder_lost(runs: Runs, name: str) -> Seen:
    """Lose a builder. Another one follows and continues its log."""
    with _as_before(runs):
        run = _bake(runs, name)
        runs.until(
            "a builder that says something, or an end",
            lambda: any("logs/builder/" in key for key in run.keys) or run.execution.is_over,
        )
        if not run.execution.is_over:
            runs.cloud.fault("kill", str(_rows(run, "attempt#", "hosts")[0]["hosts"][0]))
        return _seen(runs, run, seconds=400)


def bake_answer_lost(runs: Runs, name: str) -> Seen:
    """Lose the answer of CreateFleet, so that the launched builder is unknown."""
    runs.cloud.fault("refuse", "*", "*", "*")
    with _as_before(runs):
        try:
            run = _bake(runs, name)
            requests = runs.until(
                "a bake that waits", lambda: _waits(run) and _rows(run, "launch-request#", "answer")
            )
            _forget(runs, requests[-1], "answer", "refusal", "code", "reason", "answered")
        finally:
            runs.cloud.fault("clear")
        return _seen(runs, run, seconds=400)


def bake_default_quota(runs: Runs, name: str) -> Seen:
    """Use a quota that was never raised for a builder, which then has no GPU."""
    with _as_before(runs):
        return _seen(runs, _bake(runs, name, builder={"instance_types": ["p5.4xlarge"]}), seconds=400)


def own_test_fails(runs: Runs, name: str) -> Seen:
    """Fail a test of the recipe."""
    recipe = {"name": "permissions", "base": runs.yard.image(), "tests": ["false"]}
    run = runs.yard.start("bake", {"recipe": recipe, "force": True}, f"{name[:50]}-{time.time_ns()}")
    return _seen(runs, run, seconds=400)


def bake_by_key(runs: Runs, name: str) -> Seen:
    """Request the recipe of the current image, so that nothing is baked."""
    return _seen(runs, runs.yard.start("bake", {}, f"{name[:50]}-{time.time_ns()}"))


def bake_uploaded(runs: Runs, name: str) -> Seen:
    """Upload the recipe of the current image, so that nothing is baked."""
    key = runs.yard.recipe
    uploaded = begin(runs.yard.bucket, key, runs.yard.bucket.read(key) or b"")
    return _seen(runs, runs.yard.run(uploaded.run, "bake").wait_for_start())


def bake_missing(runs: Runs, name: str) -> Seen:
    """Request a recipe that does not exist."""
    payload = {"recipe_key": "images/nowhere.yaml"}
    return _seen(runs, runs.yard.start("bake", payload, f"{name[:50]}-{time.time_ns()}"))


def bake_meanwhile(runs: Runs, name: str) -> Seen:
    """Start a second bake during the first."""
    first = _bake(runs, name)
    try:
        runs.until("the lock", lambda: _rows(first, "run", "recipe"))
        return _seen(runs, _bake(runs, name))
    finally:
        first.stop(now=True)
        runs.until("no builder", lambda: not living(runs, first.id))


def image_fails(runs: Runs, name: str) -> Seen:
    """Bake quickly with an image that fails in EC2 and is deleted."""
    return _quick(runs, name, lambda run, builder: runs.cloud.fault("image-fail"))


def install_fails(runs: Runs, name: str) -> Seen:
    """Bake with a builder that may not download the software."""
    role, iam = _builder_role(runs), runs.yard.session.client("iam")
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    iam.delete_role_policy(RoleName=role, PolicyName=policy)
    try:
        return bake(runs, name)
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))


def images_retired(runs: Runs, name: str) -> Seen:
    """Retire a failed image, and keep the image of a run that waits for capacity."""
    with shelf_of(runs) as shelf:
        runs.cloud.fault("image-fail")
        shelf.image(f"{name}-broken", name)
        shelf.image(f"{name}-good", name)
        with waiting_run(runs, shelf.made[f"{name}-good"]):
            seen = retire(runs)
    runs.cloud.fault("clear")
    return Seen(seen.status, f"{seen.error}: {seen.cause}", {"reason": seen.cause})


def snapshot_paused(runs: Runs, name: str) -> Seen:
    """Pause a host, make an image, and terminate the host."""
    with _host(runs) as host:
        return _snapshot(runs, name, {"instance": host, "then": "terminate"})


def snapshot_paused_before(runs: Runs, name: str) -> Seen:
    """Pause a host before the workflow does, as after a call whose answer was lost."""
    with _host(runs) as host:
        with _throttled(runs, "snapshot-quiesce"):
            run = runs.yard.start("snapshot", {"instance": host}, f"{name[:50]}-{time.time_ns()}")
            (row,) = runs.until("an admitted snapshot", lambda: _rows(run, "attempt#", "hosts"))
            wait = {"pk": row["pk"], "sk": "wait#0001#pause", "since": row["launched"]}
            _set(runs, wait, command=_command(runs, host))
        return _ended(runs, run)


def snapshot_stopped(runs: Runs, name: str) -> Seen:
    """Stop a host, make an image, and start the host again."""
    with _host(runs) as host:
        return _snapshot(runs, name, {"instance": host, "quiesce": "stop"})


def snapshot_paused_fails(runs: Runs, name: str) -> Seen:
    """Fail the image of a paused host. The image is deleted, and the host continues."""
    with _host(runs) as host:
        runs.cloud.fault("image-fail")
        return _snapshot(runs, name, {"instance": host})


def snapshot_stopped_fails(runs: Runs, name: str) -> Seen:
    """Fail the image of a stopped host. The host is started again."""
    with _host(runs) as host:
        runs.cloud.fault("image-fail")
        return _snapshot(runs, name, {"instance": host, "quiesce": "stop"})


def snapshot_of_run(runs: Runs, name: str) -> Seen:
    """Make a snapshot of the chief of a run that trains and has no checkpoint."""
    args = {"steps": 600, "step-delay": 0.05, "checkpoint-every": 1000}
    run = runs.start(runs.job(name, cluster={"workers": 1}, program={"args": args}))
    runs.until("a program that runs", lambda: _rows(run, "attempt#", "started"))
    try:
        return _snapshot(runs, name, {"run": run.id})
    finally:
        run.stop(now=True)
        runs.until("no host", lambda: not living(runs, run.id))


def launched(runs: Runs, name: str) -> Seen:
    """Launch a host from the current image."""
    return _seen(runs, _launch(runs, name))


def launched_from_nowhere(runs: Runs, name: str) -> Seen:
    """Launch a host from an image without the type of its host."""
    with _host(runs) as host:
        image = _image(runs, host, f"{name[:50]}-{time.time_ns()}", run="unknown")
        try:
            return _seen(runs, runs.yard.start("dev-host", {"image": image}))
        finally:
            _deregister(runs, image)


def launched_again(runs: Runs, name: str) -> Seen:
    """Lose the first host of a launch before it is registered."""
    run = _launch(runs, name)
    begun = runs.until("a host or an end", lambda: _living(runs, run) or run.execution.is_over)
    if isinstance(begun, list):
        runs.cloud.fault("kill", begun[0])
    return _seen(runs, run)


def dev_host(runs: Runs, name: str) -> Seen:
    """Launch a dev host of a user, which keeps its disk."""
    return _seen(runs, requests.begin(runs.yard, name[:36].rstrip("-"), "up", {"instance_types": [TYPE]}))


# ------------------------------------------------------------------------------------------ paths by permission

FROM_POOL = r"^TrainLaunchRole-(dynamodb:DeleteItem|ec2:CreateTags-instance-marked)"
HAS_POOL = os.geteuid() == 0
"""Without root, hosts of a local cloud have only one account, so they never enter the warm pool."""
PATHS: tuple[tuple[str, Path], ...] = (
    *(((FROM_POOL, from_pool),) if HAS_POOL else ()),
    (rf"(SignalRun|TrainAdmit)Role-s3:(GetObject|ListBucket)-{OTHER_BUCKET}", from_elsewhere),
    (r"SubmitRole-states:StartExecution-BakeWorkflow", recipe_unheard),
    (r"SubmitRole-states:StartExecution", upload_unheard),
    (r"SubmitRole-s3:GetObjectVersion-.*images", bake_uploaded),
    (r"SignalRunRole-s3:(DeleteObject|PutObject-.*checkpoints)", many_checkpoints),
    (r"SignalRunRole-s3:PutObject-.*tensorboard", with_events),
    (r"SignalRunRole-s3:PutObject-.*notebook", notebook_executed),
    (r"SignalRunRole-ssm|TrainAdmitRole-ssm", with_secret),
    (r"SignalRole-s3:PutObject-.*credentials", straight),
    (
        r"SignalRole-(states:SendTaskHeartbeat|dynamodb:GetItem)",
        many_checkpoints,
    ),  # both are for signals during the run
    (r"TrainAdmitRole-s3:GetObject-.*(checkpoints|job-json)", resumed),
    (r"SignalRole-states:SendTaskFailure", program_fails),
    (r"TrainWorkflowRole-.*RecoverFunction", program_fails),
    (r"SignalRole-(s3|ssm:SendCommand)", host_killed),
    (r"SignalRole-ssm:ListCommandInvocations", install_fails),
    (r"(TrainRole|SignalRole)-ssm:DescribeInstanceInformation", host_unregistered),
    (rf"^HostRole-{MANAGED}", imaged),
    (r"ReleaseRole-ec2:(Stop|ModifyInstanceAttribute)", hosts_stopped),
    (r"SnapshotCaptureRole-states:SendTaskSuccess", imaged_before),
    (r"TrainWorkflowRole-.*Undo", image_of_run_fails),
    (
        r"TrainWorkflowRole-.*Snapshot|SnapshotQuiesceRole-(s3|ec2:DescribeImages|ssm:SendCommand-document-.*generalize)",
        imaged,
    ),
    (r"SnapshotQuiesceRole-states:SendTaskSuccess", snapshot_paused_before),
    (r"SnapshotUndoRole-ec2:(StartInstances|DescribeInstances)", snapshot_stopped_fails),
    (r"SnapshotUndoRole|SnapshotWorkflowRole-.*Undo", snapshot_paused_fails),
    (r"SnapshotFateRole-ec2:(St(op|art)Instances|ModifyInstanceAttribute)", snapshot_stopped),
    (r"SnapshotAdmitRole-s3", snapshot_of_run),
    (r"^Snapshot", snapshot_paused),
    (r"DevHostWorkflowRole-.*(DevHostRecover|Release)", launched_again),
    (r"DevHostAdmitRole-s3:ListBucket", launched_from_nowhere),
    (r"DevHostConcludeRole-ec2:ModifyInstanceAttribute", dev_host),
    (r"^DevHost", launched),
    (r"TrainAwaitHostsRole-states:SendTaskSuccess", await_hosts_late),
    (r"TrainAwaitHostsRole-states:SendTaskFailure", await_hosts_too_late),
    (r"TrainAwaitHostsRole-s3", finish_unheard),
    (r"TrainRole-states:SendTaskSuccess", train_late),
    (r"TrainRole-states:SendTaskFailure", train_too_late),
    (r"TrainLaunchRole-ec2:DescribeInstances", answer_lost),
    (r"TrainPlanRole-servicequotas:GetAWSDefault", default_quota),
    (r"^TrainLaunchRole-.*HostTemplate200", at_rate(200)),
    (r"^TrainLaunchRole-.*HostTemplate300", at_rate(300)),
    (r"^BakeLaunchRole-.*BuilderTemplate200", bake_at_rate(200)),
    (r"^BakeLaunchRole-.*BuilderTemplate300", bake_at_rate(300)),
    (r"^TrainLaunchRole-.*Subnet1", in_zone("us-east-1a")),
    (r"^TrainLaunchRole-.*Subnet2", in_zone("us-east-1b")),
    (r"^TrainLaunchRole-.*Subnet3", in_zone("us-east-1c")),
    (r"BakeLaunchRole-.*Subnet1", bake_in_zone("us-east-1a")),
    (r"BakeLaunchRole-.*Subnet2", bake_in_zone("us-east-1b")),
    (r"BakeLaunchRole-.*Subnet3", bake_in_zone("us-east-1c")),
    (r"BakeCaptureRole-states", bake_captured),
    (r"BakeDocumentRole-ssm:GetCommandInvocation", install_fails),
    (r"BakeDocumentRole-s3:ListBucket", install_fails),
    (r"BakePlanRole-servicequotas:GetAWSDefault", bake_default_quota),
    (r"BakeLaunchRole-ec2:DescribeInstances", bake_answer_lost),
    (r"^BuilderRole-s3:GetObject-.*logs", builder_lost),
    (r"BakeDocumentRole-s3", own_test_fails),
    (r"BakePublishRole-ssm:GetParameter-.*PreviousImage", rolled_back),
    (r"BakeAdmitRole-s3:GetObjectVersion", bake_uploaded),
    (r"BakeAdmitRole-s3:ListBucket", bake_missing),
    (r"BakeAdmitRole-(s3:GetObject|ssm)", bake_by_key),
    (r"BakeAdmitRole-states", bake_meanwhile),
    (r"BakeConcludeRole-ec2:(DeregisterImage|DeleteSnapshot)", image_fails),
    (r"BakeWorkflowRole-.*BakeRecover", builder_lost),
    (r"BakeDocumentRole-states|BakeCaptureRole|BakeWorkflowRole-.*(Capture|Publish|Release)", bake_quick),
    (r"BakePublishRole|BakeConcludeRole", bake_quick),
    (r"^(Bake|Builder)", bake),
    (r"^Retire", images_retired),
    (r"", straight),
)

UNSEEN: tuple[tuple[str, str], ...] = (
    *(() if HAS_POOL else ((FROM_POOL, "only a run that claims warm hosts uses it; as root a path does"),)),
    (
        r"^ReleaseRole-(dynamodb:GetItem|ec2:CreateTags)",
        "only a run that leaves hosts to the warm pool uses it: they are terminated, and the timeline has the reason",
    ),
    (
        r"^SignalRole-dynamodb:DeleteItem",
        "only the end of a warm host uses it: its row remains until the next launch, and the event is a dead letter",
    ),
    (
        r"SnapshotCaptureRole-ec2:(DeregisterImage|DeleteSnapshot)",
        "a snapshot uses it only if it was stopped at the moment at which EC2 began its image",
    ),
    (
        r"BakeCaptureRole-ec2:(DeregisterImage|DeleteSnapshot)",
        "a bake uses it only if it was stopped at the moment at which EC2 began its image",
    ),
    (r"-logs:(CreateLogStream|PutLogEvents)-", "Lambda runs a function whose role may not write its log"),
    (
        r"WorkflowRole-logs:",
        "Step Functions checks it when the state machine is deployed; a run only loses its log",
    ),
    (r"^RetireEventsRole-", "EventBridge uses it once a day"),
    (
        r"^SubmitScheduleRole-|^SubmitRole-(scheduler|iam|dynamodb)|^SignalRole-lambda:InvokeFunction-.*Submit",
        "only a schedule uses it: no run starts, and the event becomes a dead letter",
    ),
    (
        r"^TrainAwaitRunsRole-|^TrainWorkflowRole-.*AwaitRuns|^(Train|Study)ConcludeRole-(states:SendTaskSuccess|dynamodb:GetItem)",
        "only a run with start_after uses it; patrol starts that run if Conclude may not",
    ),
    (
        r"^PrepareRole-",
        "a deployment uses it and never fails without it: its output Prepared names the action",
    ),
    (
        r"^HostRole-cloudwatch:",
        "the run continues: the host's agent logs it, and patrol, without metrics of the GPUs, warns",
    ),
    (
        r"^SignalRunRole-s3:PutObject-.*use",
        "the run continues: the agent logs it, and the record of what its hosts did is missing",
    ),
    (
        r"^HostRole-s3:PutObject-.*working",
        "hosts report to each other by it that their programs work: needed only if one waits for another, or hangs",
    ),
    (
        r"^HostRole-s3:PutObject-",
        "a second way for signals of a host: needed only if an event is lost",
    ),
    (
        r"^BuilderRole-cloudwatch:(Put|Get)MetricData",
        "an image without GPUs publishes nothing; with GPUs the test gpu_metrics fails",
    ),
    (r"^SignalDevHostRole-", "users of a dev host need it, and their command names it"),
    (
        r"^SignalRole-sts:AssumeRole-.*DevHost",
        "a dev host needs it: users there have no credentials, and the event is a dead letter",
    ),
    (
        r"^SignalRole-ec2:",
        "only a hold uses it: the command on the host fails, and the event is a dead letter",
    ),
    (
        r"^SignalRole-lambda:InvokeFunction",
        "only a long run with min and max workers uses it, ten minutes after its start",
    ),
    (
        r"^SignalRole-states:StartExecution",
        "a requested dev host does not start, the command reports it, and the event is a dead letter",
    ),
    (
        r"^SignalRole-states:StopExecution",
        "a run that is stopped while it has no hosts ends before its next launch request; the event is a dead letter",
    ),
    (
        r"Template100$",
        "only gangs of more than 25 hosts use this rate: a region allows no more disks at 200",
    ),
    (
        r"^(DevHost|Snapshot)ConcludeRole-s3:ListBucket",
        "only a launch or snapshot that was stopped before its first row uses it",
    ),
    (
        rf"^BuilderRole-{MANAGED}",
        "a bake waits ten minutes for a builder that is not registered (a fault of the simulator)",
    ),
    (
        r"LaunchRole-ssm:GetParameters-",
        "the request names the image; the template names it only for launches by hand",
    ),
    (
        r"^PatrolRole-pricing:GetProducts",
        "no pass and no run fails: prices are those of another region, and each text with dollars explains this",
    ),
    (
        r"-sqs:SendMessage-",
        "Lambda uses it if a function has failed three times and its event would be lost",
    ),
)
"""Permissions whose absence no run notices, also on AWS, and the reason for each grant."""


def path_of(grant: Grant) -> Path:
    """Return the path that needs a permission."""
    return next(path for pattern, path in PATHS if re.search(pattern, str(grant)))


def unseen(grant: Grant) -> str | None:
    """Return why no run notices the absence of a permission, or None if a run needs it."""
    return next((reason for pattern, reason in UNSEEN if re.search(pattern, str(grant))), None)


def named(grant: Grant) -> str:
    """Return the action that the reason of a run must name."""
    return "ssm:UpdateInstanceInformation" if grant.action == MANAGED else grant.action


# ---------------------------------------------------------------------------------------------------- the parts


@contextmanager
def _host(runs: Runs) -> Iterator[str]:
    """Yield an on-demand host that trains nothing, and terminate it."""
    run = runs.yard.start("dev-host", {"image": runs.yard.image(), "market": "on_demand"})
    host = str(runs.finish(run).summary["instance"])
    try:
        yield host
    finally:
        runs.cloud.fault("clear")
        runs.yard.session.client("ec2").terminate_instances(InstanceIds=[host])


def _snapshot(runs: Runs, name: str, asked: dict[str, Any]) -> Seen:
    """Run a snapshot and delete its image."""
    return _ended(runs, runs.yard.start("snapshot", asked, f"{name[:50]}-{time.time_ns()}"))


def _ended(runs: Runs, run: Run) -> Seen:
    seen = _seen(runs, run)
    mine = [{"Name": "tag:trainyard:execution", "Values": [run.id]}]
    for image in runs.yard.session.client("ec2").describe_images(Owners=["self"], Filters=mine)["Images"]:
        _deregister(runs, image["ImageId"])
    return seen


def _deregister(runs: Runs, image: str) -> None:
    """Deregister an image, unless the yard already has."""
    try:
        runs.yard.session.client("ec2").deregister_image(ImageId=image, DeleteAssociatedSnapshots=True)
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("InvalidAMIID"):
            raise


def _launch(runs: Runs, name: str) -> Run:
    return runs.yard.start("dev-host", {"image": runs.yard.image()}, f"{name[:50]}-{time.time_ns()}")


def _seen(runs: Runs, run: Run, seconds: float = 150) -> Seen:
    try:
        execution = run.wait(seconds, every=0.5).execution
    except StillRunning as error:
        run.stop(now=True)
        history = [event["type"] for event in run.history][-3:]
        return Seen("RUNNING", f"{error} {history}", {}, run.id, run.why())
    return Seen(execution.status, f"{execution.error}: {execution.cause}", run.summary, run.id, run.why())


def _living(runs: Runs, run: Run) -> list[str]:
    return [one["InstanceId"] for one in runs.yard.instances(run.id) if one["State"]["Name"] == "running"]


def living(runs: Runs, run: str) -> list[str]:
    """Return the hosts of a run that still run."""
    up = ("pending", "running")
    return [one["InstanceId"] for one in runs.yard.instances(run) if one["State"]["Name"] in up]


def end_hosts(runs: Runs, seconds: float = 30) -> None:
    """Terminate all hosts, including stopped ones, as an operator does."""
    kept = [one for one in runs.yard.instances() if one["State"]["Name"] in (*ALIVE, "stopped")]
    if kept:
        ids = [one["InstanceId"] for one in kept]
        runs.yard.session.client("ec2").terminate_instances(InstanceIds=ids)
        runs.until("all hosts gone", lambda: not runs.living(), seconds)


def _rows(run: Run, prefix: str, attribute: str) -> list[dict[str, Any]]:
    return [
        row
        for row in run.yard.partition(f"run#{run.id}")
        if row["sk"].startswith(prefix) and attribute in row
    ]


def _set(runs: Runs, row: dict[str, Any], **values: Any) -> None:
    table_of(runs).put_item(Item={**row, **values})


def _forget(runs: Runs, row: dict[str, Any], *names: str) -> None:
    table_of(runs).put_item(Item={key: value for key, value in row.items() if key not in names})


def _waits(run: Run) -> bool:
    return [state.name for state in run.states][-1:] == ["Wait for capacity"]


@contextmanager
def _throttled(runs: Runs, word: str) -> Iterator[None]:
    """Throttle a function, as in an account whose concurrency is used up."""
    functions, name = runs.yard.session.client("lambda"), f"trainyard-{word}"
    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        yield
    finally:
        functions.delete_function_concurrency(FunctionName=name)


def _queue(runs: Runs) -> tuple[Any, str]:
    queues = runs.yard.session.client("sqs")
    return queues, queues.get_queue_url(QueueName="trainyard-dead-letters")["QueueUrl"]


def _lost(runs: Runs) -> str:
    queues, url = _queue(runs)
    found = queues.receive_message(QueueUrl=url, MaxNumberOfMessages=1).get("Messages", [])
    for message in found:
        queues.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return str(found[0]["Body"]) if found else ""


def _drain(runs: Runs) -> None:
    while _lost(runs):
        pass


def _bake(runs: Runs, name: str, **more: Any) -> Run:
    recipe = {"name": "permissions", "base": runs.yard.image(), **more}
    return runs.yard.start("bake", {"recipe": recipe, "force": True}, f"{name[:50]}-{time.time_ns()}")


@contextmanager
def _as_before(runs: Runs) -> Iterator[None]:
    """Restore image parameters and images afterwards."""
    ssm, ec2 = runs.yard.session.client("ssm"), runs.yard.session.client("ec2")
    pointers = {name: runs.yard.image(previous="previous" in name) for name in POINTERS}
    had = {image["ImageId"] for image in ec2.describe_images(Owners=["self"])["Images"]}
    try:
        yield
    finally:
        for name, value in pointers.items():
            ssm.put_parameter(Name=name, Value=value, Type="String", Overwrite=True)
        for image in ec2.describe_images(Owners=["self"])["Images"]:
            if image["ImageId"] not in had:
                _deregister(runs, image["ImageId"])


def _quick(runs: Runs, name: str, meanwhile: Callable[[str, str], object]) -> Seen:
    """Bake with one command that does nothing instead of each SSM document."""
    with _as_before(runs):
        with _throttled(runs, "bake-document"):
            run = _bake(runs, name)
            begun = runs.until(
                "a builder or an end",
                lambda: _rows(run, "attempt#", "hosts") or run.execution.is_over,
            )
            if isinstance(begun, list):
                (row,) = begun
                (builder,) = row["hosts"]
                runs.until("a builder that SSM knows", lambda: _registered(runs, builder))
                command = _command(runs, builder)
                for step in ("install", "test", "generalize"):
                    wait = {"pk": row["pk"], "sk": f"wait#0001#{step}", "since": row["launched"]}
                    _set(runs, wait, command=command)
                meanwhile(run.id, builder)
        return _seen(runs, run)


def _registered(runs: Runs, host: str) -> bool:
    known = runs.yard.session.client("ssm").describe_instance_information()["InstanceInformationList"]
    return host in {each["InstanceId"] for each in known}


def _command(runs: Runs, host: str) -> str:
    """Run a command on a host, wait for its success, and return its ID."""
    ssm = runs.yard.session.client("ssm")
    sent = ssm.send_command(
        DocumentName="AWS-RunShellScript", InstanceIds=[host], Parameters={"commands": ["true"]}
    )
    command = str(sent["Command"]["CommandId"])

    def succeeded() -> bool:
        invocations = ssm.list_command_invocations(CommandId=command)["CommandInvocations"]
        return bool(invocations) and invocations[0]["Status"] == "Success"

    runs.until("a command that has succeeded", succeeded)
    return command


def _image(runs: Runs, host: str, name: str, *, run: str = "") -> str:
    """Make an image of a host, tagged like an image of the yard."""
    ec2 = runs.yard.session.client("ec2")
    marks = {"trainyard:yard": "trainyard"} | ({"trainyard:run": run} if run else {})
    tags = [{"Key": key, "Value": value} for key, value in marks.items()]
    tagged = [{"ResourceType": kind, "Tags": tags} for kind in ("image", "snapshot")]
    made = str(
        ec2.create_image(InstanceId=host, Name=name, NoReboot=True, TagSpecifications=tagged)["ImageId"]
    )
    ec2.get_waiter("image_available").wait(ImageIds=[made], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    return made


def _builder_role(runs: Runs) -> str:
    resources = runs.yard.session.client("cloudformation").list_stack_resources(StackName="Trainyard-Images")
    return next(
        str(each["PhysicalResourceId"])
        for each in resources["StackResourceSummaries"]
        if each["ResourceType"] == "AWS::IAM::Role" and each["LogicalResourceId"].startswith("BuilderRole")
    )


def short_cause(seen: Seen) -> str:
    """Return the beginning of a cause for the report."""
    return json.dumps(seen.cause)[:300]
