"""Programs in container images: the pinned bytes in every attempt, the image's user, ends and saves as without one."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from localcloud.base import root_key
from localcloud.cli.image_build import Settings, build
from localcloud.cli.images import Pusher
from tests.e2e.runs import Runs
from tests.support.container_roots import add_python, make_root
from trainyard.client import Run
from trainyard.client.importing.kinds import import_file
from trainyard.client.inventory import hosts as inventory
from trainyard.client.jobs.source import pack_folder

PROGRAM = """#!/bin/sh
echo "image VERSION: $(id -u) in $(pwd)"
saved=$TRAINYARD_CHECKPOINTS/step
trap 'echo saved at $i; exit 75' TERM
i=0
[ -f $saved ] && i=$(cat $saved) && echo "continues at $i"
while [ $i -lt ${STEPS:-4} ] || [ -f /var/lib/trainyard/home/wait ]; do
    i=$((i + 1))
    mkdir -p $TRAINYARD_CHECKPOINTS
    echo $i >$saved.new && mv $saved.new $saved
    echo "step $i"
    sleep 0.5
done
rm /bin/touch && echo "changed the image"
mkdir -p $TRAINYARD_MODEL && echo weights >$TRAINYARD_MODEL/weights.txt
exit ${CODE:-0}
"""
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
TWO = {"strategy": "multi_worker", "workers": 2}
COMMANDS = ("cat", "id", "mkdir", "mv", "rm", "sh", "sleep", "touch")
LONG = "100000"
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="hosts of an ordinary user's local cloud have one account only"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_root(tmp_path_factory.mktemp("files"), commands=COMMANDS)


def push(runs: Runs, image: str, files: Path, version: str, tmp_path: Path, *, user: str = "1000") -> str:
    """Push an image whose program names its version, and return the digest."""
    program = tmp_path / version / "opt"
    program.mkdir(parents=True)
    (program / "train").write_text(PROGRAM.replace("VERSION", version))
    (program / "train").chmod(0o755)
    settings = Settings(user=user, entrypoint=["/opt/train"], folder="/work", environment={"STEPS": "4"})
    built = build([files, program.parent], settings)
    return Pusher(runs.cloud.port, root_key.load_key(runs.cloud.state), image).push([built])


def job(
    runs: Runs, name: str, image: str, *, environment: dict[str, str] | None = None, **changes: Any
) -> dict[str, Any]:
    plain = runs.job(name, cluster=TWO, **changes)
    program = {"container": image, "environment": environment or {}}
    return plain | {"name": name, "program": program, "data": {}}


def test_a_second_attempt_and_a_resumed_run_have_the_same_bytes_although_the_tag_has_moved(
    runs: Runs, files: Path, tmp_path: Path
) -> None:
    image = f"{ECR}/team/pinned:v1"
    push(runs, image, files, "one", tmp_path)
    run = runs.in_mid_training(job(runs, "pinned", image, environment={"STEPS": LONG}))
    assert "image one: 1000 in /work" in run.log()
    push(runs, image, files, "two", tmp_path)
    runs.cloud.fault("interrupt", runs.host_of(run, "worker"))
    runs.until("the second attempt", lambda: "continues at" in run.log(attempt=2))
    assert "image one:" in run.log(attempt=2)
    assert "image two:" not in run.log(attempt=2)
    run.stop()
    runs.finish(run)
    assert run.summary["outcome"] == "stopped"
    saved = re.findall(r"saved at (\d+)", run.log(attempt=2))
    assert len(saved) == 1, run.log(attempt=2)
    resumed = runs.finish(runs.yard.rerun(run.id, resume=True, set={"program.environment.STEPS": "1"}))
    assert resumed.succeeded, resumed.why()
    assert f"continues at {saved[0]}\n" in resumed.log()
    assert "image one: 1000 in /work" in resumed.log()


@pytest.mark.parametrize("user", ["", "ann"])
def test_the_exit_code_is_the_programs_and_the_log_shows_the_images_user(
    runs: Runs, files: Path, tmp_path: Path, user: str
) -> None:
    image = f"team/ends:{user or 'root'}"
    push(runs, image, files, "one", tmp_path, user=user)
    run = runs.run(job(runs, "ends", image, environment={"CODE": "3"}))
    assert (run.summary["outcome"], run.summary["restarts"]) == ("failed", 0), run.why()
    assert "3" in run.summary["reason"]
    assert f"image one: {1000 if user else 0} in /work" in run.log()
    assert "changed the image" in run.log()


def test_packages_are_installed_with_the_images_python_from_the_hosts_index(
    runs: Runs, tmp_path: Path
) -> None:
    image = f"{ECR}/team/packages:v1"
    files = add_python(make_root(tmp_path / "files", commands=("cat", "sh")))
    built = build([files], Settings(user="1000", folder="/work"))
    Pusher(runs.cloud.port, root_key.load_key(runs.cloud.state), image).push([built])
    source = tmp_path / "source"
    source.mkdir()
    (source / "page.py").write_text(
        "import sys, markdown\nprint(markdown.markdown('*yes*'), sys.prefix, sys.base_prefix)\n"
    )
    (source / "present.txt").write_text("markdown\n")
    (source / "absent.txt").write_text("no-such-package\n")
    runs.yard.bucket.put("programs/page.tar.gz", pack_folder(source))
    started = []
    for name in ("present", "absent"):
        program = {"source": "s3://BUCKET/programs/page.tar.gz", "module": "page", "container": image}
        single = {"strategy": "single", "workers": 1}
        plain = runs.job(f"packages-{name}", cluster=single)
        started.append(runs.start(plain | {"program": program | {"requirements": f"{name}.txt"}, "data": {}}))
    present, absent = map(runs.finish, started)
    assert present.succeeded, present.why()
    assert "<p><em>yes</em></p> /var/lib/trainyard/home" in present.log()
    assert (absent.summary["outcome"], absent.summary["restarts"]) == ("failed", 0), absent.why()
    assert "the index has no such version with a file for Python 3." in absent.why()


BATCH_AI = {
    "properties": {
        "nodeCount": 2,
        "tensorFlowSettings": {
            "parameterServerCount": 1,
            "workerCount": 2,
            "pythonScriptFilePath": "$AZ_BATCHAI_INPUT_SCRIPT/replica.py",
            "masterCommandLineArgs": "--job_name=worker --task_index=$AZ_BATCHAI_TASK_INDEX "
            "--data_dir=$AZ_BATCHAI_INPUT_DATASET --output_dir=$AZ_BATCHAI_OUTPUT_MODEL",
            "parameterServerCommandLineArgs": "--job_name=ps",
        },
        "inputDirectories": [
            {"id": "DATASET", "path": "$AZ_BATCHAI_MOUNT_ROOT/external/digits"},
            {"id": "SCRIPT", "path": "$AZ_BATCHAI_MOUNT_ROOT/external/samples"},
        ],
        "outputDirectories": [
            {"id": "MODEL", "pathPrefix": "$AZ_BATCHAI_MOUNT_ROOT/external", "pathSuffix": "Models"}
        ],
        "containerSettings": {"imageSourceRegistry": {"image": "tensorflow/tensorflow:1.1.0-gpu"}},
    }
}
REPLICA = """
import os, sys, time
given = dict(word[2:].partition("=")[::2] for word in sys.argv[1:])
print("replica", given["job_name"], given["task_index"], sorted(os.listdir(given["data_dir"])), flush=True)
while given["job_name"] == "ps":
    time.sleep(1)
os.makedirs(given["output_dir"], exist_ok=True)
open(given["output_dir"] + "/weights", "w").write("weights")
"""


def test_a_job_of_batch_ai_with_a_container_is_imported_and_runs(runs: Runs, tmp_path: Path) -> None:
    files = add_python(make_root(tmp_path / "files", commands=("cat", "sh")))
    (files / "bin/python").symlink_to(f"{sys.base_prefix}/bin/python3")
    image = "tensorflow/tensorflow:1.1.0-gpu"
    Pusher(runs.cloud.port, root_key.load_key(runs.cloud.state), image).push([build([files], Settings())])
    (tmp_path / "job.json").write_text(json.dumps(BATCH_AI))
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples/replica.py").write_text(REPLICA)
    runs.yard.bucket.put("data/dataset/numbers.txt", b"1\n")
    imported = tmp_path / "job.yaml"
    imported.write_text(import_file(tmp_path / "job.json").text("Imported."))
    run = runs.finish(runs.yard.submit(imported))
    assert run.succeeded, run.why()
    assert "replica worker 0 ['numbers.txt']" in run.log()
    assert run.json("job.json")["program"]["container"]["digest"].startswith("sha256:")


@needs_root
def test_the_next_run_on_warm_hosts_pulls_nothing(runs: Runs, files: Path, tmp_path: Path) -> None:
    image = f"{ECR}/team/warm:v1"
    push(runs, image, files, "one", tmp_path)
    pool = {"keep": 2, "minutes": 20}
    first = runs.run(job(runs, "first-image", image, pool=pool))
    assert first.succeeded, first.why()
    assert all("pulled" in reason for reason in pulls_of(first)), pulls_of(first)
    runs.until("two warm hosts", lambda: len(warm(runs)) == 2)
    second = runs.run(job(runs, "second-image", image, pool={"keep": 1, "minutes": 20}))
    assert second.succeeded, second.why()
    assert set(pulls_of(second)) == {"the image is on this host already: nothing is pulled"}
    assert "changed the image" in second.log()
    inventory.end_warm_hosts(runs.yard, second.id)
    runs.until("no host waits", lambda: not warm(runs))
    runs.until("patrol ends it", lambda: not runs.living())


def pulls_of(run: Run) -> list[str]:
    """Return the notes of the timeline about the pull of each host."""
    return [event.reason for event in run.timeline if event.event == "ready"]


def warm(runs: Runs) -> list[str]:
    """Return the wiped hosts in the warm pool."""
    rows = runs.yard.session.resource("dynamodb").Table(runs.yard.table)
    condition = {"KeyConditionExpression": "pk = :pool", "ExpressionAttributeValues": {":pool": "pool"}}
    return sorted(str(row["sk"]) for row in rows.query(**condition)["Items"] if row.get("ready"))


def test_a_recipe_puts_an_image_on_the_hosts_image_and_the_plan_prefers_it(
    runs: Runs, files: Path, tmp_path: Path
) -> None:
    image = f"{ECR}/team/baked:v1"
    digest = push(runs, image, files, "one", tmp_path)
    recipe = {"name": "baked", "base": runs.yard.image(), "current": False, "containers": [image]}
    made = runs.finish(runs.yard.start("bake", {"recipe": recipe}))
    assert made.succeeded, made.why()
    tests = {test["name"]: test["reason"] for test in made.json("tests.json")["tests"]}
    assert tests["containers[0]"] == "it can be entered, and has no command `true`"
    baked = made.summary["image"]
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job(runs, "on-image", image)))
    assert (
        f"{image} is already on the image {baked} (baked): hosts pull nothing." in runs.yard.plan(file).reason
    )
    run = runs.run(job(runs, "on-image", image))
    assert run.succeeded, run.why()
    assert set(pulls_of(run)) == {"the image is on this host already: nothing is pulled"}
    assert "image one: 1000 in /work" in run.log()
    assert run.json("job.json")["program"]["container"]["digest"] == digest
    missing = {**recipe, "containers": [f"{ECR}/team/baked:v9"]}
    refused = runs.finish(runs.yard.start("bake", {"recipe": missing}))
    assert refused.execution.error == "RecipeRefused"
    assert f"containers[0]: {ECR}/team/baked has no tag v9; the nearest of its tags are v1" in refused.why()
