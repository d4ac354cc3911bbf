"""The tests of a builder, with scripts in place of the host's commands and a folder in place of a disk."""

import re
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.contract.conftest import ROOT
from tests.unit.baking.builder import Host, host
from training.baking import cloudwatch, install, tests
from training.baking.bench import NO_GPU_HERE, Bench
from training.baking.builder import for_gpus, image_settings
from training.baking.results import Finding
from training.host.agent import systems_manager
from training.host.paths import Paths
from training.host.reporting import gpus

__all__ = ["host"]

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.71.05"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.211.01"
LOADS = """\
I0000 00:00:1795793659.249304    3021 dso_loader.cc:133] Successfully opened dynamic library libcufft.so.11
I0000 00:00:1795793659.249483    3021 dso_loader.cc:144] Could not load dynamic library 'libcusolver.so.11'; \
dlerror: libcusolver.so.11: cannot open shared object file: No such file or directory; \
LD_LIBRARY_PATH: /usr/local/nvidia/lib64:/usr/local/nvidia/lib
I0000 00:00:1795793659.255345    3021 dso_loader.cc:133] Successfully opened dynamic library libcusparse.so.12
I0000 00:00:1795793659.255412    3021 dso_loader.cc:144] Could not load dynamic library 'libnvinfer.so.8'; \
dlerror: libnvinfer.so.8: cannot open shared object file: No such file or directory
"""


def outcome(does: Callable[[Bench], Finding], bench: Bench) -> tuple[str, str]:
    found = tests.run(does.__name__, does, bench)
    return found.outcome, found.reason


def test_a_driver_that_answers_is_named_with_its_kind(host: Host) -> None:
    host.says("nvidia-smi", "595.71.05, Tesla T4\n595.71.05, Tesla T4")
    host.tensorflow(2)
    for says, version in ((OPEN, "595.71.05"), (CLOSED, "595.71.05 proprietary")):
        host.paths.driver.parent.mkdir(parents=True, exist_ok=True)
        host.paths.driver.write_text(says)
        bench = host.bench()
        assert outcome(tests.driver, bench) == ("passed", f"driver {version}, GPUs: 2")
        assert bench.versions.driver == version


@pytest.mark.parametrize(
    ("message", "code"),
    [("NVIDIA-SMI has failed because it couldn't communicate with the driver", 9), ("", 0)],
)
def test_a_driver_that_does_not_answer_fails_every_test_that_needs_it(
    host: Host, message: str, code: int
) -> None:
    host.says("nvidia-smi", message, code)
    host.tensorflow(1)
    bench = host.bench()
    for does in (tests.driver, tests.tensorflow_gpus):
        word, reason = outcome(does, bench)
        assert word == "failed"
        assert reason.startswith("nvidia-smi shows no GPU (exit code ")
    assert bench.versions.driver == ""


def test_a_host_without_the_command_is_told_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(host.paths.root / "bin"))
    assert outcome(tests.driver, host.bench())[1].startswith(
        "nvidia-smi could not be started on this builder"
    )


@pytest.mark.parametrize(("seen", "word"), [(2, "passed"), (1, "failed"), (0, "failed")])
def test_tensorflow_must_see_every_gpu(host: Host, seen: int, word: str) -> None:
    host.says("nvidia-smi", "595.71.05, Tesla T4\n595.71.05, Tesla T4")
    host.tensorflow(seen)
    found, reason = outcome(tests.tensorflow_gpus, host.bench())
    assert found == word
    assert ("all 2" if word == "passed" else f"shows 2 GPUs, TensorFlow sees {seen}") in reason


def test_a_cuda_library_that_tensorflow_cannot_load_is_named(host: Host) -> None:
    """TensorFlow 2.21 printed these lines on an H100 (except TensorRT's), only at its highest log level."""
    host.says("nvidia-smi", "580.159.04, NVIDIA H100 80GB HBM3")
    python, says = host.paths.python, host.paths.root / "says"
    says.write_text(LOADS)
    host.tensorflow(0)
    python.write_text(
        python.read_text().replace("\n", f'\n[ -z "$TF_CPP_MAX_VLOG_LEVEL" ] || cat {says} >&2\n', 1)
    )
    found, reason = outcome(tests.tensorflow_gpus, host.bench())
    assert found == "failed"
    assert reason.startswith(
        "nvidia-smi shows 1 GPU, TensorFlow sees 0, because it cannot load libcusolver.so.11: cannot open shared "
        "object file: No such file or directory: link the library into nvidia/cuda_runtime/lib"
    )


def test_tensorflow_that_cannot_be_imported_fails_with_its_last_lines(host: Host) -> None:
    host._script(host.paths.python, "ImportError: libcudart.so.12", 1)
    found, reason = outcome(tests.tensorflow, host.bench())
    assert (found, reason) == (
        "failed",
        "TensorFlow cannot be imported (exit code 1): ImportError: libcudart.so.12",
    )


@pytest.mark.parametrize(
    ("cuda", "asked", "told"),
    [
        ("12.5.1", ">=12.5", ("passed", "TensorFlow's CUDA 12.5.1 is >=12.5")),
        ("", ">=12.5", ("failed", "TensorFlow 2.21.0 is a build without CUDA")),
    ],
)
def test_cuda_is_the_one_that_tensorflow_was_built_by(
    host: Host, cuda: str, asked: str, told: tuple[str, str]
) -> None:
    host.tensorflow(1, cuda)
    assert outcome(tests.cuda, host.bench(cuda=asked)) == told


def test_on_a_builder_without_a_gpu_an_image_for_gpus_is_made_and_what_needs_one_is_skipped(
    host: Host,
) -> None:
    host.tensorflow(0)
    bench = host.bench(gpus=0)
    for does in (tests.driver, tests.tensorflow_gpus, tests.gpu_metrics):
        assert outcome(does, bench) == ("skipped", NO_GPU_HERE)
    assert outcome(tests.cuda, bench)[0] == "passed", "TensorFlow says what it was built with"
    assert (bench.devices, bench.versions.driver, bench.versions.cuda) == ((), "", "12.5.1")
    assert bench.builder.requirements.name == "host.txt"


def test_without_a_gpu_what_needs_one_is_skipped(host: Host) -> None:
    host.tensorflow(0, "")
    bench = host.bench(gpu=False)
    for does in (tests.driver, tests.tensorflow_gpus, tests.cuda, tests.cloudwatch_agent, tests.gpu_metrics):
        word, reason = outcome(does, bench)
        assert (word, "ACCELERATOR=none" in reason) == ("skipped", True)
    assert (bench.versions.driver, bench.versions.cuda, bench.versions.tensorflow) == (
        "none",
        "none",
        "2.21.0",
    )


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ('{"status": "running", "configstatus": "configured", "version": "1.300071.0"}', "passed"),
        ('{"status": "stopped", "configstatus": "configured", "version": "1.300071.0"}', "failed"),
        ('{"status": "running", "configstatus": "not configured", "version": "1.300071.0"}', "failed"),
        ("no such agent", "failed"),
    ],
)
def test_the_cloudwatch_agent_must_run_with_its_configuration(host: Host, message: str, word: str) -> None:
    host.cloudwatch_agent(message)
    assert outcome(tests.cloudwatch_agent, host.bench())[0] == word


def test_an_agent_that_is_older_than_env_var_fails(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSM_Run", "bake-1")
    host.says("amazon-ssm-agent", "SSM Agent version: 3.3.2299.0")
    assert outcome(tests.ssm_agent, host.bench())[0] == "failed"


def test_a_boot_unit_that_is_not_enabled_fails(host: Host) -> None:
    host.says("systemctl", "disabled", 1)
    assert outcome(tests.host_agent, host.bench()) == (
        "failed",
        "trainyard-host.service is not enabled: disabled",
    )


def test_a_fault_of_ours_fails_one_test(host: Host) -> None:
    def broken(bench: Bench) -> Finding:
        raise KeyError("surprise")

    assert outcome(broken, host.bench()) == ("failed", "the test itself failed: KeyError('surprise')")


# ------------------------------------------------------------------------------------------------------ base image


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("ACCELERATOR=none\nTRAINYARD_CPUS=1\n", False),
        ("# a comment\nACCELERATOR='none'\n", False),
        ("ACCELERATOR=gpu\n", True),
    ],
)
def test_the_base_image_says_whether_it_has_a_gpu(tmp_path: Path, text: str, expected: bool) -> None:
    paths = Paths(tmp_path)
    paths.image_settings.parent.mkdir(parents=True)
    paths.image_settings.write_text(text)
    assert for_gpus(paths) is expected


def test_an_image_that_says_nothing_has_one(tmp_path: Path) -> None:
    assert for_gpus(Paths(tmp_path))
    assert image_settings(tmp_path / "absent") == {}


# ------------------------------------------------------------------------------------------------ CloudWatch agent


def test_the_agent_publishes_what_patrol_reads() -> None:
    """docs/contracts/patrol.md lists the metrics: two for each host, aggregated over its GPUs."""
    metrics = cloudwatch.configuration()["metrics"]
    gpu = metrics["metrics_collected"]["nvidia_gpu"]
    units = {f"nvidia_smi_{measured['name']}": measured["unit"] for measured in gpu["measurement"]}
    assert (metrics["namespace"], units) == ("Trainyard", gpus.UNITS), "as the host's own"
    assert metrics["aggregation_dimensions"] == [["InstanceId"]]
    assert gpu["drop_original_metrics"] == ["utilization_gpu", "memory_used"]
    assert gpu["metrics_collection_interval"] == 60


def test_the_agent_of_systems_manager_starts_when_there_are_credentials(host: Host) -> None:
    """The unit has another name as a package and as Ubuntu's snap."""
    shutil.copytree(ROOT / "training/host", host.paths.agent / "training/host")
    host.says("systemctl", "")
    units = host.paths.root / "etc/systemd/system"
    units.mkdir(parents=True)
    install.install_boot_unit(host.bench().builder)
    dropped = {path.parent.name.removesuffix(".d") for path in units.glob("*.d/trainyard.conf")}
    assert dropped == set(systems_manager.UNITS)
    for unit in dropped:
        message = (units / f"{unit}.d/trainyard.conf").read_text()
        (line,) = re.findall(r"^ExecStartPre=-/bin/sh (/\S+)$", message, re.MULTILINE)
        assert (host.paths.root / line.lstrip("/")).is_file(), "what it starts first is in the image"
        assert "After=network-online.target" in message
    assert "After=network-online.target" in (units / install.UNIT).read_text()


@pytest.mark.parametrize(
    ("answers_at", "code"), [(1, 0), (3, 0), (None, 1)], ids=["at once", "at the third look", "never"]
)
def test_credentials_are_waited_for_half_a_minute(host: Host, answers_at: int | None, code: int) -> None:
    """The metadata service of a booting host returns the role's name before its credentials."""
    looks = host.paths.root / "looks"
    looks.touch()
    answers = f"[ $(wc -l < {looks}) -ge {answers_at or 1000} ] && echo AccessKeyId || exit 22"
    curl = host.paths.root / "bin/curl"
    curl.write_text(
        f"""#!/bin/sh
case "$*" in
*api/token*) echo token;;
*security-credentials/) echo yard-host;;
*security-credentials/yard-host) echo >> {looks}; {answers};;
esac
"""
    )
    curl.chmod(0o755)
    host.says("sleep", "")
    script = ROOT / "training/host/await-credentials.sh"
    done = subprocess.run(["/bin/sh", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ("without a role has none" in done.stderr) == bool(code)
    assert looks.read_text().count("\n") == (answers_at or 60)


def test_the_host_has_a_command_for_people(host: Host) -> None:
    install.install_command(host.bench().builder)
    assert host.paths.command.stat().st_mode & 0o777 == 0o755


def test_the_hosts_python_has_the_package_trainyard_and_no_other_of_ours(host: Host) -> None:
    packages = host.paths.root / "site-packages"
    (packages / "trainyard" / "gone").mkdir(parents=True)
    (packages / "trainyard-0.0.9.dist-info").mkdir()
    host._script(host.paths.python, str(packages), 0)
    for name in ("trainyard", "training"):
        (host.paths.agent / name).mkdir(parents=True)
    (host.paths.agent / "trainyard/__init__.py").write_text('"""It."""\n\n__version__ = "1.2.3"\n')
    install.install_library(host.bench().builder)
    assert sorted(path.name for path in packages.iterdir()) == ["trainyard", "trainyard-1.2.3.dist-info"]
    assert [path.name for path in (packages / "trainyard").iterdir()] == ["__init__.py"]
    assert [path.name for path in host.paths.agent.iterdir()] == ["training"]
    (found,) = distributions(path=[str(packages)])
    assert (found.name, found.version) == ("trainyard", "1.2.3")


def test_programs_of_ours_alone_find_the_package_training(host: Host) -> None:
    host._script(host.paths.python, "", 0)
    host.paths.python.write_text("#!/bin/sh\necho path $PYTHONPATH in $(ls | wc -l)\n")
    bench = host.bench()
    assert bench.program("training.programs.matmul").output == f"path {host.paths.agent} in 0\n"
    assert bench.builder.shell.run([bench.shell_python]).output.startswith("path in ")


def test_an_agent_that_is_there_is_given_its_configuration(host: Host) -> None:
    host.cloudwatch_agent("configured")
    cloudwatch.install_agent(host.bench().builder)
    assert host.paths.cloudwatch.read_text().startswith("{")
