"""The tests on the builder before an image is made of it. Each test runs even if earlier ones have failed."""

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training.baking import versions
from training.baking.bench import FOR_NO_GPU, Bench
from training.baking.bill_of_materials import bill_of_materials
from training.baking.builder import Builder
from training.baking.containers import container_test
from training.baking.install import UNIT
from training.baking.jupyter import WITHOUT, setting
from training.baking.pair import losses_of_two
from training.baking.results import (
    Finding,
    Result,
    count_results,
    failed,
    failure,
    passed,
    skipped,
    table,
    to_json,
)
from training.baking.shell import end
from training.host import account, fence
from training.host.errors import HostTrouble, ProgramFault
from training.host.image.disk_identity import owner
from training.host.program.tasks import most_tasks
from training.host.reporting import gpus
from trainyard.protocol import keys
from trainyard.values import quantities

METRICS_SECONDS, LOOK_SECONDS = 420.0, 5.0
AGENT_SECONDS = 30.0
LEAST_SHARE_FREE, LEAST_BYTES_FREE = 0.2, 10 * 2**30
NOT_LOADED = re.compile(r"dlerror: (lib(?!nvinfer).*?)(?:; LD_LIBRARY_PATH.*)?$", re.MULTILINE)
"""The message of TensorFlow's loader about a missing library. TensorRT is not needed."""
SSM_AGENTS = ("amazon-ssm-agent", "/snap/amazon-ssm-agent/current/amazon-ssm-agent")
logger = logging.getLogger(__name__)


def run_all(builder: Builder) -> None:
    """Run all tests, and write tests.json, a table, and sbom.json. Raises ProgramFault with the failed tests."""
    bench = Bench(builder)
    containers = [
        (f"containers[{index}]", lambda bench, index=index: container_test(bench, index))
        for index in range(len(builder.recipe.containers))
    ]
    recipes = [
        (f"tests[{index}]", lambda bench, index=index: recipe_test(bench, index))
        for index in range(len(builder.recipe.tests))
    ]
    results = [run(name, test, bench) for name, test in [*TESTS, *containers, *recipes]]
    written = {
        keys.sbom(builder.run): bill_of_materials(builder),
        keys.tests(builder.run): to_json(results, bench.versions),
    }
    for key, content in written.items():
        builder.bucket.write(key, json.dumps(content, indent=2).encode())
    for line in table(results):
        builder.log.note(line)
    builder.log.note(count_results(results))
    reason = failure(results)
    if reason:
        raise ProgramFault(reason)


def run(name: str, test: Callable[[Bench], Finding], bench: Bench) -> Result:
    """Run one test. An exception counts as its failure."""
    bench.builder.log.note(f"== test {name}")
    began = time.monotonic()
    try:
        finding = test(bench)
    except HostTrouble as trouble:
        finding = failed(trouble.reason)
    except Exception as error:  # our own bug must not prevent other tests
        logger.exception("the test %s failed", name)
        finding = failed(f"the test itself failed: {error!r}")
    seconds = round(time.monotonic() - began, 1)
    bench.builder.log.note(f"{finding.outcome}: {finding.reason}")
    return Result(name, finding.outcome, finding.reason, seconds)


def driver(bench: Bench) -> Finding:
    """Check that the GPU's driver answers."""
    if bench.without_gpu:
        return skipped(bench.without_gpu)
    return passed(f"driver {bench.driver}, GPUs: {len(bench.drivers)}")


def tensorflow_gpus(bench: Bench) -> Finding:
    """Check that TensorFlow finds every GPU of the driver. Otherwise it would use the processors without a warning."""
    if bench.without_gpu:
        return skipped(bench.without_gpu)
    shown, seen = len(bench.drivers), len(bench.tensorflow_report.gpus)
    if shown == seen:
        return passed(f"TensorFlow {bench.tensorflow_report.tensorflow} sees all {seen}")
    both = f"nvidia-smi shows {quantities.format_count(shown, 'GPU')}, TensorFlow sees {seen}"
    if missed := libraries_missed(bench):
        return failed(
            f"{both}, because it cannot load {'; '.join(missed)}: link the library into nvidia/cuda_runtime/lib of the "
            "hosts' Python packages by a line of the recipe's commands, or use another release of TensorFlow"
        )
    return failed(
        f"{both}: driver {bench.drivers[0]} and the CUDA libraries of TensorFlow "
        f"({bench.tensorflow_report.cuda or 'a build without CUDA'}) are not compatible; see its lines in the log"
    )


def libraries_missed(bench: Bench) -> list[str]:
    """Return the dynamic linker's messages about CUDA libraries that TensorFlow could not load. By default it names
    none."""
    python = shlex.quote(bench.shell_python)
    line = f"TF_CPP_MAX_VLOG_LEVEL=1 {python} -m training.baking.tensorflow_report 2>&1 | grep -F 'dlerror: '"
    with tempfile.TemporaryDirectory() as place:
        done = bench.builder.shell.run(
            ["/bin/sh", "-c", line], cwd=Path(place), environment=bench.builder.our_path
        )
    return sorted(set(NOT_LOADED.findall(done.output)))


def matmul(bench: Bench) -> Finding:
    """Check a product of matrices on each GPU, or on the processors if there is none."""
    done = bench.program("training.programs.matmul", *bench.devices)
    if done.is_good:
        return passed(done.last_lines(1))
    return failed(f"the product of two matrices is wrong ({done.reason}): {done.last_lines()}")


def tensorflow(bench: Bench) -> Finding:
    return versions.fits("TensorFlow", bench.tensorflow_report.tensorflow, bench.builder.recipe.tensorflow)


def cuda(bench: Bench) -> Finding:
    if not bench.builder.for_gpus:
        return skipped(FOR_NO_GPU)
    if not bench.tensorflow_report.cuda:
        return failed(f"TensorFlow {bench.tensorflow_report.tensorflow} is a build without CUDA")
    return versions.fits("TensorFlow's CUDA", bench.tensorflow_report.cuda, bench.builder.recipe.cuda)


def ssm_agent(bench: Bench) -> Finding:
    command = next((found for name in SSM_AGENTS if (found := shutil.which(name))), None)
    output = bench.builder.shell.run([command, "-version"], seconds=60).output if command else None
    return versions.ssm_agent(output, handed_over="SSM_Run" in os.environ)


def cloudwatch_agent(bench: Bench) -> Finding:
    """Check that the agent runs with our configuration."""
    if not bench.builder.for_gpus:
        return skipped(f"{FOR_NO_GPU}, so it has no metrics to publish")
    done = bench.builder.shell.run(
        [str(bench.builder.paths.cloudwatch_agent), "-a", "status", "-m", "ec2"], seconds=60
    )
    try:
        status: dict[str, Any] = json.loads(done.output[done.output.find("{") :])
    except ValueError:
        return failed(f"the CloudWatch agent prints no status ({done.reason}): {done.last_lines()}")
    how = f"CloudWatch agent {status.get('version')}, {status.get('status')}, {status.get('configstatus')}"
    is_well = (status.get("status"), status.get("configstatus")) == ("running", "configured")
    return passed(how) if is_well else failed(f"{how}: it must be running and configured")


def disk(bench: Bench) -> Finding:
    """Check that hosts have room for program, data, and checkpoints."""
    room = shutil.disk_usage(bench.builder.paths.root)
    free = f"{room.free / 2**30:.1f} of {room.total / 2**30:.1f} GiB are free"
    if room.free >= LEAST_BYTES_FREE or room.free >= LEAST_SHARE_FREE * room.total:
        return passed(free)
    return failed(
        f"only {free}: hosts would have no room for data and checkpoints; raise root_gib in the recipe, or install less"
    )


def host_agent(bench: Bench) -> Finding:
    """Check that the boot unit is enabled, and that the agent takes its first step: to note the instance's id."""
    shell, written = bench.builder.shell, bench.builder.paths.owner
    enabled = shell.run(["systemctl", "is-enabled", UNIT], seconds=60)
    if not enabled.is_good:
        return failed(f"{UNIT} is not enabled: {enabled.last_lines()}")
    written.unlink(missing_ok=True)
    started = shell.run(["systemctl", "restart", UNIT], seconds=60)
    until = time.monotonic() + AGENT_SECONDS
    while started.is_good and time.monotonic() < until:
        if owner(bench.builder.paths) == bench.builder.identity.instance:
            return passed(f"it is enabled, and runs on {bench.builder.identity.instance}")
        time.sleep(0.2)
    journal = shell.run(["journalctl", "-u", UNIT, "--no-pager", "-n", "20"], seconds=60)
    return failed(f"the host agent does not start: {journal.last_lines()}")


def account_of_programs(bench: Bench) -> Finding:
    """Check that the programs' account can use every GPU, and cannot reach the metadata service, which has the host's
    credentials."""
    programs = account.find()
    if not programs.is_another:
        return skipped(account.ONE_ACCOUNT_ONLY)
    fence.put_up(programs)
    python = bench.builder.paths.python
    done = bench.builder.shell.run(
        programs.command([str(python), "-I", "-c", TRIES], python=python, most_tasks=most_tasks()), seconds=60
    )
    if done.is_good:
        return passed(f"{account.NAME} (user {programs.uid}): {done.last_lines(1)}")
    return failed(f"programs cannot run as the account {account.NAME} ({done.reason}): {done.last_lines()}")


TRIES = f"""
import glob, os, urllib.request
gpus = glob.glob("/dev/nvidia[0-9]*")
for gpu in gpus:
    os.close(os.open(gpu, os.O_RDWR))
try:
    urllib.request.urlopen("http://{fence.METADATA}/latest/", timeout=10)
    raise SystemExit("the metadata service answers it")
except urllib.error.HTTPError:
    raise SystemExit("the metadata service answers it")
except OSError:
    print("opens", len(gpus), "GPUs, and does not reach the metadata service")
"""


def two_processes(bench: Bench) -> Finding:
    """Check that two processes form a cluster and have the same loss after a step."""
    gpus = len(bench.tensorflow_report.gpus)
    first, second = losses_of_two(bench.builder, gpus=gpus)
    where = "each on a GPU" if gpus > 1 else "on the processors"
    if first == second:
        return passed(f"two processes made a step {where} and both have the loss {first}")
    return failed(f"two processes made a step {where} and differ: loss {first} and {second}")


def gpu_metrics(bench: Bench) -> Finding:
    """Check that CloudWatch gets utilization and memory of a busy GPU, under the names that patrol reads."""
    builder = bench.builder
    if bench.without_gpu:
        return skipped(bench.without_gpu)
    client = builder.session.client("cloudwatch")
    until = time.monotonic() + METRICS_SECONDS
    with _compute_in_background(bench):
        while True:
            here = gpus.read_arrived(
                client, builder.identity.instance, since=bench.began, now=datetime.now(UTC)
            )
            if len(here) == len(gpus.UNITS) and here[gpus.UTILIZATION] > 0:
                shown = ", ".join(f"{name} {value:g}" for name, value in sorted(here.items()))
                return passed(f"in CloudWatch, namespace {gpus.NAMESPACE}: {shown}")
            if time.monotonic() >= until:
                return failed(_missing_metrics(here))
            time.sleep(LOOK_SECONDS)


def jupyter(bench: Bench) -> Finding:
    """Check that a kernel of JupyterLab starts, runs a cell, and finds the hosts' TensorFlow."""
    paths = bench.builder.paths
    if (wanted := setting(paths)) and not paths.jupyter.exists():
        return skipped(WITHOUT.format(wanted))
    with tempfile.TemporaryDirectory() as place:
        cell = Path(place, "cell.py")
        cell.write_text(CELL)
        aside = dict.fromkeys(("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"), place)
        command = [str(paths.jupyter / "bin/jupyter-run"), "--kernel=python3", str(cell)]
        done = bench.builder.shell.run(command, seconds=120, environment=aside)
    if done.is_good and SEEN in done.output:
        return passed(f"{SEEN} in a kernel of JupyterLab")
    return failed(f"a kernel of JupyterLab does not see TensorFlow ({done.reason}): {done.last_lines()}")


SEEN = "TensorFlow is seen"
CELL = f"""
import importlib.util
print("{SEEN}" if importlib.util.find_spec("tensorflow") else "it is not there")
"""


def recipe_test(bench: Bench, index: int) -> Finding:
    """Run a line of the recipe's tests. Exit code 0 passes."""
    lines = bench.builder.recipe.tests
    bench.builder.log.note(f"$ {lines[index]}")
    done = bench.builder.shell.line(lines[index])
    if done.is_good:
        return passed(f'"{lines[index]}" ended with exit code 0')
    return failed(f'"{lines[index]}" failed ({done.reason}): {done.last_lines()}')


TESTS: tuple[tuple[str, Callable[[Bench], Finding]], ...] = tuple(
    (test.__name__, test)
    for test in (
        driver,
        tensorflow_gpus,
        matmul,
        tensorflow,
        cuda,
        ssm_agent,
        cloudwatch_agent,
        disk,
        host_agent,
        account_of_programs,
        two_processes,
        gpu_metrics,
        jupyter,
    )
)


def _missing_metrics(here: Any) -> str:
    absent = [name for name in gpus.UNITS if name not in here]
    if absent:
        return (
            f"{' and '.join(absent)} of this host did not arrive in CloudWatch (namespace {gpus.NAMESPACE}) "
            f"within {METRICS_SECONDS:.0f} seconds, so idle hosts would not be detected. See "
            "/opt/aws/amazon-cloudwatch-agent/logs, and allow cloudwatch:PutMetricData in the host role"
        )
    return (
        f"{gpus.UTILIZATION} arrives in CloudWatch, but stays 0 while the host computes: the agent cannot read this "
        "driver's values; use a base image with another driver"
    )


@contextmanager
def _compute_in_background(bench: Bench) -> Iterator[None]:
    """Multiply matrices in the background."""
    command = [bench.shell_python, "-m", "training.programs.matmul", *bench.devices, "--repeats", "100000000"]
    with tempfile.TemporaryDirectory() as place:
        process: subprocess.Popen[bytes] = bench.builder.shell.start(
            command, cwd=Path(place), environment=bench.builder.our_path
        )
        try:
            yield
        finally:
            end(process)
