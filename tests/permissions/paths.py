"""Runs that take every path a permission is for: most are for the straight one, the others for when things go wrong.

A path starts a run and does to it what leads it where the permission is needed. It answers what a user sees.
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
"""The type that is dear enough on demand for a disk of 100 GiB at so many MiB/s (core/capacity/initialization.py)."""


@dataclass(frozen=True)
class Seen:
    """What came of it. `said` is the execution's cause; where no execution exists, what the lost event tells."""

    status: str
    said: str
    summary: dict[str, Any] = field(repr=False)
    run: str = ""
    log: str = field(default="", repr=False)


Path = Callable[[Runs, str], Seen]


def straight(runs: Runs, name: str) -> Seen:
    """One host, a few steps."""
    return _seen(runs, runs.start(runs.job(name, **ONE)))


def many_checkpoints(runs: Runs, name: str) -> Seen:
    """Long enough for old checkpoints to be pruned."""
    args = {"steps": 500, "step-delay": 0.02, "checkpoint-every": 10}
    return _seen(runs, runs.start(runs.job(name, cluster={"workers": 1}, program={"args": args})))


def resumed(runs: Runs, name: str) -> Seen:
    """A run that goes on from another's last checkpoint."""
    saves = {"cluster": {"workers": 1}, "program": {"args": {"steps": 5, "checkpoint-every": 2}}}
    before = runs.run(runs.job(f"{name[:30]}-before", **saves))
    return _seen(runs, runs.start(runs.job(name, **ONE, checkpoints={"resume": before.id})))


def from_pool(runs: Runs, name: str) -> Seen:
    """A run that takes the host which another has kept warm for it."""
    pool = {"keep": 1, "minutes": 10}
    runs.run(runs.job(f"{name[:30]}-before", **ONE, pool=pool))
    waiting = {"KeyConditionExpression": "pk = :pool", "ExpressionAttributeValues": {":pool": "pool"}}
    runs.until(
        "a warm host", lambda: any(row.get("ready") for row in table_of(runs).query(**waiting)["Items"])
    )
    return _seen(runs, runs.start(runs.job(name, **ONE)))


def from_elsewhere(runs: Runs, name: str) -> Seen:
    """Its data lie in a bucket that is not the yard's."""
    s3 = runs.yard.session.client("s3")
    s3.create_bucket(Bucket=OTHER_BUCKET)
    s3.put_object(Bucket=OTHER_BUCKET, Key="digits/few/numbers.txt", Body=b"1\n2\n3\n")
    return _seen(runs, runs.start(runs.job(name, **ONE, data={"few": f"s3://{READS}few/"})))


def notebook_executed(runs: Runs, name: str) -> Seen:
    """A notebook, which the run leaves executed."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "few.ipynb")
        file.write_text(notebook("1 + 1"))
        return _seen(runs, runs.yard.submit(file, name=name))


def with_events(runs: Runs, name: str) -> Seen:
    """The program writes events for TensorBoard."""
    program = {"args": {"steps": 5, "events": True}}
    return _seen(runs, runs.start(runs.job(name, cluster={"workers": 1}, program=program)))


def with_secret(runs: Runs, name: str) -> Seen:
    """The program is given a secret."""
    ssm, secret = runs.yard.session.client("ssm"), "/trainyard/secrets/permissions"
    ssm.put_parameter(Name=secret, Type="SecureString", Value="kept to itself")
    program = {"secrets": {"WANDB_API_KEY": "permissions"}, "args": {"steps": 5}}
    try:
        return _seen(runs, runs.start(runs.job(name, cluster={"workers": 1}, program=program)))
    finally:
        ssm.delete_parameter(Name=secret)


def program_fails(runs: Runs, name: str) -> Seen:
    """The program ends with an error of its own."""
    job = runs.job(name, cluster={"workers": 1}, program={"args": {"steps": 50, "fail-at": 3}})
    return _seen(runs, runs.start(job))


def host_killed(runs: Runs, name: str) -> Seen:
    """One of two hosts vanishes in mid-training."""
    run = runs.in_mid_training(runs.job(name, program={"args": LONG}))
    runs.cloud.fault("kill", runs.host_of(run, "worker"))
    return _seen(runs, run)


def host_unregistered(runs: Runs, name: str) -> Seen:
    """Systems Manager does not know one of two hosts, which is asked to leave when the other vanishes."""
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
    """On-demand hosts that the job keeps."""
    job = runs.job(name, **ONE, after={"hosts": "stop"}, hardware={"market": "on_demand"})
    return _seen(runs, runs.start(job))


def imaged(runs: Runs, name: str) -> Seen:
    """The job asks for an image of its host."""
    return _seen(runs, runs.start(runs.job(name, **ONE, after={"image": "on_success"})))


def image_of_run_fails(runs: Runs, name: str) -> Seen:
    """The same, and EC2 cannot make it."""
    runs.cloud.fault("image-fail")
    try:
        return imaged(runs, name)
    finally:
        runs.cloud.fault("clear")


def imaged_before(runs: Runs, name: str) -> Seen:
    """As if an earlier call had made the image and its answer was lost: it is there when Capture asks for it."""
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
"""What fails of these beside the training is the image's."""


def await_hosts_late(runs: Runs, name: str) -> Seen:
    """Lambda throttles AwaitHosts until the hosts are ready, so that it finds the gang complete."""
    with _throttled(runs, "train-await-hosts"):
        run = runs.start(runs.job(name, **ONE))
        runs.until("a host that is ready", lambda: _rows(run, "host#", "ready"))
    return _seen(runs, run)


def await_hosts_too_late(runs: Runs, name: str) -> Seen:
    """The same, and the host is gone again when AwaitHosts looks."""
    with _throttled(runs, "train-await-hosts"):
        run = runs.start(runs.job(name, **ONE, limits={"restarts": 0}))
        host = runs.until("a host", lambda: _living(runs, run))[0]
        runs.cloud.fault("kill", host)
        runs.until("the loss in the ledger", lambda: _rows(run, "attempt#", "ending"))
    return _seen(runs, run)


def finish_unheard(runs: Runs, name: str) -> Seen:
    """The only host hangs, and what it has left is a finish, too young for patrol: Train hears nobody for 150 s."""
    run = runs.in_mid_training(runs.job(name, cluster={"workers": 1}, program={"args": LONG}))
    host = runs.host_of(run, "chief")
    runs.cloud.fault("freeze", host)
    late = datetime.now(UTC) + timedelta(hours=1)
    word = {"run": run.id, "attempt": 1, "instance": host, "at": late.isoformat(), "signal": "finished"}
    runs.yard.bucket.put(f"runs/{run.id}/attempts/1/words/AROA:{host}.json", json.dumps(word).encode())
    return _seen(runs, run, 300)


def train_too_late(runs: Runs, name: str) -> Seen:
    """A host is gone again when Train begins."""
    with _throttled(runs, "train-train"):
        run = runs.start(runs.job(name, **ONE, limits={"restarts": 0}))
        runs.until("a whole gang", lambda: _rows(run, "attempt#", "gang_ready"))
        runs.cloud.fault("kill", _living(runs, run)[0])
        runs.until("the loss in the ledger", lambda: _rows(run, "attempt#", "ending"))
    return _seen(runs, run)


def train_late(runs: Runs, name: str) -> Seen:
    """Train's first answer was lost: the program has finished when it is called again."""
    with _throttled(runs, "train-train"):
        run = runs.start(runs.job(name, **ONE))
        (attempt,) = runs.until("a whole gang", lambda: _rows(run, "attempt#", "gang_ready"))
        now = attempt["gang_ready"]
        _set(runs, attempt, ending="finished", ended=now, reason="the program finished", to_step=5)
    return _seen(runs, run)


def answer_lost(runs: Runs, name: str) -> Seen:
    """CreateFleet's answer was lost: nobody knows what it launched."""
    runs.cloud.fault("refuse", "*", "*", "*")
    try:
        run = runs.start(runs.job(name, **ONE))
        requests = runs.until("a run that waits", lambda: _waits(run) and _rows(run, "intent#", "answer"))
        _forget(runs, requests[-1], "answer", "refusal", "code", "reason", "answered")
    finally:
        runs.cloud.fault("clear")
    return _seen(runs, run)


def default_quota(runs: Runs, name: str) -> Seen:
    """A quota that the account never had raised: AWS knows only its default (0, so the run is refused)."""
    job = runs.job(name, **ONE, hardware={"instance_types": ["p5.4xlarge"], "max_dollars_per_hour": None})
    return _seen(runs, runs.start(job))


def at_rate(rate: int) -> Path:
    """Hosts whose disks are fetched at that rate: for each there are launch templates."""

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
    """The one zone that has room."""

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
    """No run can start: the function's error and the event are in the queue that has an alarm."""
    _drain(runs)
    runs.upload(runs.job(name, **ONE))
    message = runs.until("the event in the queue of lost events", lambda: _lost(runs))
    return Seen("FAILED", message, {"reason": message})


def recipe_unheard(runs: Runs, name: str) -> Seen:
    """No bake can start: the same."""
    _drain(runs)
    begin(runs.yard.bucket, runs.yard.recipe, runs.yard.bucket.read(runs.yard.recipe) or b"")
    message = runs.until("the event in the queue of lost events", lambda: _lost(runs))
    return Seen("FAILED", message, {"reason": message})


def bake(runs: Runs, name: str) -> Seen:
    """A whole bake, from the yard's own image, which has most of it. Parameters and images are as before afterwards."""
    with _as_before(runs):
        return _seen(runs, _bake(runs, name), seconds=400)


def bake_in_zone(zone: str) -> Path:
    """The one zone that has room for a builder."""

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
    """A builder whose disk is fetched at that rate."""

    def path(runs: Runs, name: str) -> Seen:
        builder = {"instance_types": [FETCHED_AT[rate]], "market": "on_demand"}
        with _as_before(runs):
            return _seen(runs, _bake(runs, name, builder=builder), seconds=400)

    path.__name__ = f"bake_at_{rate}"
    return path


def rolled_back(runs: Runs, name: str) -> Seen:
    """The previous image becomes the current one again."""
    with _as_before(runs):
        previous = {"Name": POINTERS[1], "Value": runs.yard.image(), "Type": "String", "Overwrite": True}
        runs.yard.session.client("ssm").put_parameter(**previous)
        return _seen(runs, runs.yard.start("bake", {"rollback": True}, f"{name[:50]}-{time.time_ns()}"))


def bake_quick(runs: Runs, name: str) -> Seen:
    """As if an earlier call had sent every document and its answer was lost. Nothing is really installed, so the image
    that comes of it is taken away again."""
    return _quick(runs, name, lambda run, builder: None)


def bake_captured(runs: Runs, name: str) -> Seen:
    """The same for Capture: the image is there when it asks for it."""
    return _quick(runs, name, lambda run, builder: _image(runs, builder, f"trainyard-baked-{run}-1"))


def builder_lost(runs: Runs, name: str) -> Seen:
    """The builder vanishes when it has begun, and another one follows and goes on with its log."""
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
    """CreateFleet's answer was lost: nobody knows which builder it launched."""
    runs.cloud.fault("refuse", "*", "*", "*")
    with _as_before(runs):
        try:
            run = _bake(runs, name)
            requests = runs.until(
                "a bake that waits", lambda: _waits(run) and _rows(run, "intent#", "answer")
            )
            _forget(runs, requests[-1], "answer", "refusal", "code", "reason", "answered")
        finally:
            runs.cloud.fault("clear")
        return _seen(runs, run, seconds=400)


def bake_default_quota(runs: Runs, name: str) -> Seen:
    """A quota that the account never had raised, of a builder: the image is made on processors then."""
    with _as_before(runs):
        return _seen(runs, _bake(runs, name, builder={"instance_types": ["p5.4xlarge"]}), seconds=400)


def own_test_fails(runs: Runs, name: str) -> Seen:
    """What the recipe asks for is not there."""
    recipe = {"name": "permissions", "base": runs.yard.image(), "tests": ["false"]}
    run = runs.yard.start("bake", {"recipe": recipe, "force": True}, f"{name[:50]}-{time.time_ns()}")
    return _seen(runs, run, seconds=400)


def bake_by_key(runs: Runs, name: str) -> Seen:
    """The yard's own recipe, of which the current image is made: nothing is baked."""
    return _seen(runs, runs.yard.start("bake", {}, f"{name[:50]}-{time.time_ns()}"))


def bake_uploaded(runs: Runs, name: str) -> Seen:
    """The same, because somebody uploaded it."""
    key = runs.yard.recipe
    uploaded = begin(runs.yard.bucket, key, runs.yard.bucket.read(key) or b"")
    return _seen(runs, runs.yard.run(uploaded.run, "bake").started())


def bake_missing(runs: Runs, name: str) -> Seen:
    """A recipe that is not there."""
    payload = {"recipe_key": "images/nowhere.yaml"}
    return _seen(runs, runs.yard.start("bake", payload, f"{name[:50]}-{time.time_ns()}"))


def bake_meanwhile(runs: Runs, name: str) -> Seen:
    """A second bake, while the first goes on."""
    first = _bake(runs, name)
    try:
        runs.until("the lock", lambda: _rows(first, "run", "recipe"))
        return _seen(runs, _bake(runs, name))
    finally:
        first.stop(now=True)
        runs.until("no builder", lambda: not living(runs, first.id))


def image_fails(runs: Runs, name: str) -> Seen:
    """EC2 cannot make the image, so what there is of it goes."""
    return _quick(runs, name, lambda run, builder: runs.cloud.fault("image-fail"))


def install_fails(runs: Runs, name: str) -> Seen:
    """The builder may not fetch the software."""
    role, iam = _builder_role(runs), runs.yard.session.client("iam")
    (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    iam.delete_role_policy(RoleName=role, PolicyName=policy)
    try:
        return bake(runs, name)
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(document))


def images_retired(runs: Runs, name: str) -> Seen:
    """An image that never became one goes; that of a run that waits for capacity stays."""
    with shelf_of(runs) as shelf:
        runs.cloud.fault("image-fail")
        shelf.image(f"{name}-broken", name)
        shelf.image(f"{name}-good", name)
        with waiting_run(runs, shelf.made[f"{name}-good"]):
            seen = retire(runs)
    runs.cloud.fault("clear")
    return Seen(seen.status, f"{seen.error}: {seen.cause}", {"reason": seen.cause})


def snapshot_paused(runs: Runs, name: str) -> Seen:
    """A host is paused, imaged and ended."""
    with _host(runs) as host:
        return _snapshot(runs, name, {"instance": host, "then": "terminate"})


def snapshot_paused_before(runs: Runs, name: str) -> Seen:
    """As if an earlier call had paused the host and its answer was lost."""
    with _host(runs) as host:
        with _throttled(runs, "snapshot-quiesce"):
            run = runs.yard.start("snapshot", {"instance": host}, f"{name[:50]}-{time.time_ns()}")
            (row,) = runs.until("an admitted snapshot", lambda: _rows(run, "attempt#", "hosts"))
            wait = {"pk": row["pk"], "sk": "wait#0001#pause", "since": row["launched"]}
            _set(runs, wait, command=_command(runs, host))
        return _ended(runs, run)


def snapshot_stopped(runs: Runs, name: str) -> Seen:
    """A host is stopped, imaged and started again."""
    with _host(runs) as host:
        return _snapshot(runs, name, {"instance": host, "quiesce": "stop"})


def snapshot_paused_fails(runs: Runs, name: str) -> Seen:
    """The image of a paused host fails: it goes, and the host goes on."""
    with _host(runs) as host:
        runs.cloud.fault("image-fail")
        return _snapshot(runs, name, {"instance": host})


def snapshot_stopped_fails(runs: Runs, name: str) -> Seen:
    """The same of a host that was stopped: it is started again."""
    with _host(runs) as host:
        runs.cloud.fault("image-fail")
        return _snapshot(runs, name, {"instance": host, "quiesce": "stop"})


def snapshot_of_run(runs: Runs, name: str) -> Seen:
    """A snapshot of a run's chief, while it trains and before its first checkpoint."""
    args = {"steps": 600, "step-delay": 0.05, "checkpoint-every": 1000}
    run = runs.start(runs.job(name, cluster={"workers": 1}, program={"args": args}))
    runs.until("a program that runs", lambda: _rows(run, "attempt#", "started"))
    try:
        return _snapshot(runs, name, {"run": run.id})
    finally:
        run.stop(now=True)
        runs.until("no host", lambda: not living(runs, run.id))


def launched(runs: Runs, name: str) -> Seen:
    """A host from the current image, ended once it is there."""
    return _seen(runs, _launch(runs, name))


def launched_from_nowhere(runs: Runs, name: str) -> Seen:
    """Nothing says which type the image was made on."""
    with _host(runs) as host:
        image = _image(runs, host, f"{name[:50]}-{time.time_ns()}", run="nobody")
        try:
            return _seen(runs, runs.yard.start("dev-host", {"image": image}))
        finally:
            _deregister(runs, image)


def launched_again(runs: Runs, name: str) -> Seen:
    """The first host is lost before it can be reached."""
    run = _launch(runs, name)
    begun = runs.until("a host or an end", lambda: _living(runs, run) or run.execution.is_over)
    if isinstance(begun, list):
        runs.cloud.fault("kill", begun[0])
    return _seen(runs, run)


def dev_host(runs: Runs, name: str) -> Seen:
    """A person's own, which keeps its disk from the beginning."""
    return _seen(runs, requests.begin(runs.yard, name[:36].rstrip("-"), "up", {"instance_types": [TYPE]}))


# ------------------------------------------------------------------------------------------------- which path

FROM_POOL = r"^TrainLaunchRole-(dynamodb:DeleteItem|ec2:CreateTags-instance-marked)"
HAS_POOL = os.geteuid() == 0
"""A host of an ordinary user's local cloud knows one account only, and is kept for nobody."""
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
    ),  # both are for news on the way
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
    (r"^Launch", launched),
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
    *(
        ()
        if HAS_POOL
        else ((FROM_POOL, "only a run that takes warm hosts asks for it; as root a path does"),)
    ),
    (
        r"^ReleaseRole-(dynamodb:GetItem|ec2:CreateTags)",
        "only a run that keeps its hosts for others asks for it: they end instead, and its timeline says why",
    ),
    (
        r"^SignalRole-dynamodb:DeleteItem",
        "only a warm host that goes asks for it: its row stays until somebody looks, and the event is a lost one",
    ),
    (
        r"SnapshotCaptureRole-ec2:(DeregisterImage|DeleteSnapshot)",
        "a snapshot asks for it when it was stopped in the very second in which EC2 began its image",
    ),
    (
        r"BakeCaptureRole-ec2:(DeregisterImage|DeleteSnapshot)",
        "a bake asks for it when it was stopped in the very second in which EC2 began its image",
    ),
    (r"-logs:(CreateLogStream|PutLogEvents)-", "Lambda runs a function whose role may not write its log"),
    (
        r"WorkflowRole-logs:",
        "Step Functions asks for it when the state machine is deployed; a run only loses its log",
    ),
    (r"^RetireEventsRole-", "EventBridge asks for it once a day"),
    (
        r"^PrepareRole-",
        "a deployment asks for it, which never fails for it: its output Prepared names the action",
    ),
    (
        r"^HostRole-cloudwatch:",
        "the run goes on: the host's agent names it in its log, and patrol, which knows nothing of its GPUs, warns",
    ),
    (
        r"^HostRole-s3:PutObject-.*working",
        "by it hosts tell each other that their programs work: missed where one of them waits for another, or hangs",
    ),
    (
        r"^HostRole-s3:PutObject-",
        "a second way for what a host says by its events: missed when one of them is lost",
    ),
    (
        r"^BuilderRole-cloudwatch:(Put|Get)MetricData",
        "on an image without GPUs there is nothing to publish; on one with GPUs the test gpu_metrics tells",
    ),
    (r"^SignalDevHostRole-", "people at a dev host ask for it, and their command names it"),
    (
        r"^SignalRole-sts:AssumeRole-.*DevHost",
        "a dev host asks for it: people there have no credentials, and the event is among the lost ones",
    ),
    (
        r"^SignalRole-ec2:",
        "only a host that somebody holds asks for it: it is told that nobody did, and the event is among the lost ones",
    ),
    (
        r"^SignalRole-lambda:InvokeFunction",
        "only a training of min and max workers that has a long way to go asks for it, ten minutes after it began",
    ),
    (
        r"^SignalRole-states:StartExecution",
        "a dev host that somebody asks for does not begin, which the command says; the event is among the lost ones",
    ),
    (
        r"^SignalRole-states:StopExecution",
        "a run that is stopped while it has no hosts ends when it is about to ask for some; the event is a lost one",
    ),
    (
        r"Template100$",
        "gangs of more than 25 hosts ask for disks at this rate: a region makes no more at 200",
    ),
    (
        r"^(Launch|Snapshot)ConcludeRole-s3:ListBucket",
        "only a launch or snapshot that was stopped before its first row asks for it",
    ),
    (
        rf"^BuilderRole-{MANAGED}",
        "a bake waits ten minutes for a builder that Systems Manager does not know (a fault of the simulator)",
    ),
    (
        r"LaunchRole-ssm:GetParameters-",
        "the image is named in the request, and by the template only for who launches from it by hand",
    ),
    (
        r"^PatrolRole-pricing:GetProducts",
        "no pass and no run fails: whatever says dollars says that they are another region's, since patrol may not ask",
    ),
    (
        r"-sqs:SendMessage-",
        "Lambda asks for it when a function has failed three times and its event would be lost",
    ),
)
"""What no run can notice, on AWS neither, and why it is granted all the same."""


def path_of(grant: Grant) -> Path:
    """The path that needs this permission."""
    return next(path for pattern, path in PATHS if re.search(pattern, str(grant)))


def unseen(grant: Grant) -> str | None:
    """Why no run notices that the permission is gone; None for all that a run needs."""
    return next((reason for pattern, reason in UNSEEN if re.search(pattern, str(grant))), None)


def named(grant: Grant) -> str:
    """The action that the reason must name."""
    return "ssm:UpdateInstanceInformation" if grant.action == MANAGED else grant.action


# ---------------------------------------------------------------------------------------------------- the parts


@contextmanager
def _host(runs: Runs) -> Iterator[str]:
    """An on-demand host of the yard that trains nothing, gone at the end."""
    run = runs.yard.start("dev-host", {"image": runs.yard.image(), "market": "on_demand"})
    host = str(runs.finish(run).summary["instance"])
    try:
        yield host
    finally:
        runs.cloud.fault("clear")
        runs.yard.session.client("ec2").terminate_instances(InstanceIds=[host])


def _snapshot(runs: Runs, name: str, asked: dict[str, Any]) -> Seen:
    """Ask for it; its image is gone afterwards."""
    return _ended(runs, runs.yard.start("snapshot", asked, f"{name[:50]}-{time.time_ns()}"))


def _ended(runs: Runs, run: Run) -> Seen:
    seen = _seen(runs, run)
    mine = [{"Name": "tag:trainyard:execution", "Values": [run.id]}]
    for image in runs.yard.session.client("ec2").describe_images(Owners=["self"], Filters=mine)["Images"]:
        _deregister(runs, image["ImageId"])
    return seen


def _deregister(runs: Runs, image: str) -> None:
    """Unless the yard has, meanwhile."""
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
    """The run's hosts that nobody has ended."""
    up = ("pending", "running")
    return [one["InstanceId"] for one in runs.yard.instances(run) if one["State"]["Name"] in up]


def end_hosts(runs: Runs, seconds: float = 30) -> None:
    """What the operator does who is told that hosts still run; also for those that a job keeps stopped."""
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
    """The function gets no room to run, as in an account whose concurrency is used up."""
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
    """Image parameters and images are as before afterwards."""
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
    """A bake whose builder has run one command that does nothing, in place of every document."""
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
    """A command that has succeeded on this host."""
    ssm = runs.yard.session.client("ssm")
    sent = ssm.send_command(
        DocumentName="AWS-RunShellScript", InstanceIds=[host], Parameters={"commands": ["true"]}
    )
    command = str(sent["Command"]["CommandId"])

    def succeeded() -> bool:
        told = ssm.list_command_invocations(CommandId=command)["CommandInvocations"]
        return bool(told) and told[0]["Status"] == "Success"

    runs.until("a command that has succeeded", succeeded)
    return command


def _image(runs: Runs, host: str, name: str, *, run: str = "") -> str:
    """An image of the host, as the yard would make one."""
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


def told(seen: Seen) -> str:
    """For the report: what the run said, short."""
    return json.dumps(seen.said)[:300]
