"""Data that a program streams from S3: the same results as from copies, requests in plan and bill, ends of mounts."""

import random
import re
from pathlib import Path
from typing import Any

import pytest

from localcloud.base import root_key
from localcloud.cli.image_build import Settings, build
from localcloud.cli.images import Pusher
from localcloud.machine.hypervisor import mounts
from tests.e2e.runs import Runs
from tests.support.container_roots import make_root
from trainyard.client import Run

pytestmark = pytest.mark.skipif(mounts.missing() is not None, reason=f"no FUSE here: {mounts.missing()}")
SHARDS, SHARD_BYTES, EPOCHS = 5, 2 * 1024**2, 3
TRAIN = """
import os, pathlib, random
folder = pathlib.Path(os.environ["TRAINYARD_DATA_TRAIN"])
shards = sorted(each for each in folder.rglob("*") if each.is_file())
weight = 0.5
for epoch in range(3):
    random.Random(epoch).shuffle(shards)
    for shard in shards:
        data = shard.read_bytes()
        loss = sum(data[:: 4096]) / len(data) * weight + weight
        weight -= 0.01 * loss
        print(f"epoch {epoch} {shard.relative_to(folder)} loss {loss!r}")
"""
WAIT = """
import os, pathlib, time
folder = pathlib.Path(os.environ["TRAINYARD_DATA_TRAIN"])
attempt = int(os.environ["TRAINYARD_ATTEMPT"])
print("reads", sorted(os.listdir(folder)), flush=True)
while attempt == 1:
    for shard in sorted(folder.rglob("*.bin")):
        shard.read_bytes()
    time.sleep(0.2)
"""
KILL = r"pkill -KILL -f 'main\(\) mount-s3'"
LOSS = re.compile(r"epoch \d .*")
IMAGE = "team/streams:v1"


def put_shards(runs: Runs, name: str) -> str:
    """Put shards of random bytes below a folder of the yard's bucket, and return it."""
    for number in range(SHARDS):
        body = random.Random(number).randbytes(SHARD_BYTES)
        runs.yard.bucket.put(f"data/{name}/part-{number}/shard.bin", body)
    return f"s3://BUCKET/data/{name}/"


def job(runs: Runs, name: str, source: str, program: str = TRAIN, **changes: Any) -> dict[str, Any]:
    """Return a job on one host that streams a folder."""
    plain = runs.job(name, cluster={"strategy": "single", "workers": 1})
    entry = {"source": source, "mode": "stream"} | changes.pop("train", {})
    return (
        plain | {"program": {"shell": f"python - <<'END'\n{program}END"}, "data": {"train": entry}} | changes
    )


def losses(run: Run) -> list[str]:
    return [found[0] for line in run.log().splitlines() if (found := LOSS.search(line))]


def test_three_epochs_of_a_stream_have_the_losses_of_a_copy_and_their_requests_are_billed(runs: Runs) -> None:
    source = put_shards(runs, "streamed")
    started = [
        runs.start(job(runs, f"epochs-{mode}", source, train={"mode": mode})) for mode in ("copy", "stream")
    ]
    copied, streamed = (runs.finish(run) for run in started)
    assert copied.succeeded, copied.why()
    assert streamed.succeeded, streamed.why()
    assert len(losses(copied)) == SHARDS * EPOCHS
    assert losses(streamed) == losses(copied)
    assert "data.train streams 5 objects (10.0 MiB, 2.0 MiB on average): 5 GET requests" in str(
        streamed.json("plan.json")["reason"]
    )
    requests = f"{SHARDS * EPOCHS} GET requests of streamed data ($0.0000)"
    assert requests in streamed.summary["cost"]["counts"]
    assert "not storage, requests or transfer" in copied.summary["cost"]["counts"]


def test_each_worker_streams_its_share_of_the_files(runs: Runs) -> None:
    source = put_shards(runs, "shares")
    cluster = {"strategy": "multi_worker", "workers": 2}
    run = runs.run(job(runs, "shares", source, train={"sharding": "file"}, cluster=cluster))
    assert run.succeeded, run.why()
    runs.until_log(run, "worker-1", "epoch 2")
    read = [set(re.findall(r"epoch 0 (\S+)", run.log(host))) for host in ("chief-0", "worker-1")]
    assert sorted(map(len, read)) == [2, 3]
    assert not read[0] & read[1]


def test_a_mount_that_ends_starts_the_program_again_on_the_same_host(runs: Runs) -> None:
    source = put_shards(runs, "ending")
    run = runs.start(job(runs, "mount-ends", source, WAIT))
    runs.until("the program reads", lambda: "reads" in run.log())
    host = runs.host_of(run, "chief")
    runs.on(host, KILL)
    runs.finish(run)
    assert run.succeeded, run.why()
    assert run.summary["restarts"] == 1
    first = run.summary["attempts"][0]
    assert f"the mount of data.train (s3://{runs.yard.bucket.name}/data/ending/) has ended" in first["reason"]
    assert run.json("attempts/2/cluster.json")["hosts"][0]["instance"] == host
    assert runs.living() == []


def test_an_object_that_changes_while_it_is_read_ends_the_run(runs: Runs) -> None:
    source = put_shards(runs, "changing")
    program = """
import os, pathlib, time
file = (pathlib.Path(os.environ["TRAINYARD_DATA_TRAIN"]) / "big.bin").open("rb", buffering=0)
print("reads", len(file.read(1000)), flush=True)
while not os.path.exists("/run/go-on"):
    time.sleep(0.2)
while file.read(1 << 20):
    pass
"""
    runs.yard.bucket.put("data/changing/big.bin", bytes(20 * 1024**2))
    run = runs.start(job(runs, "object-changes", source, program))
    runs.until("the program reads", lambda: "reads" in run.log())
    runs.yard.bucket.put("data/changing/big.bin", bytes([1]) * (20 * 1024**2))
    runs.on(runs.host_of(run, "chief"), "touch /run/go-on")
    runs.finish(run)
    assert (run.summary["outcome"], run.summary["restarts"]) == ("failed", 0), run.why()
    assert "big.bin below s3://" in run.summary["reason"]
    assert "was changed while this run read it" in run.summary["reason"]


def test_a_program_in_a_container_reads_a_stream(runs: Runs, tmp_path: Path) -> None:
    source = put_shards(runs, "contained")
    files = make_root(tmp_path / "files", commands=("cat", "find", "sh", "wc"))
    built = build([files], Settings(user="1000", entrypoint=[], folder="/", environment={}))
    Pusher(runs.cloud.port, root_key.load_key(runs.cloud.state), IMAGE).push([built])
    count = 'find "$TRAINYARD_DATA_TRAIN" -type f -exec cat {} + | wc -c'
    run = runs.run(
        job(runs, "contained", source, program="")
        | {"program": {"container": IMAGE, "command": ["sh", "-c", count]}}
    )
    assert run.succeeded, run.why()
    assert str(SHARDS * SHARD_BYTES) in run.log()
