"""Shared parts of a builder's tests: its commands, its GPUs, and the versions that were found."""

import platform
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from training.baking.builder import Builder
from training.baking.results import (
    Versions,
)
from training.baking.shell import CommandResult
from training.baking.tensorflow_report import TensorFlowReport
from training.host.errors import HostTrouble

FOR_NO_GPU = "the base image has no GPU (ACCELERATOR=none)"
NO_GPU_HERE = "this builder has no GPU: bake on a type that has one before a job trusts in it"
OPEN_MODULES = "Open Kernel Module"
EC2_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64"}


class Bench:
    """Values that several tests need. Metrics from before `began` do not count."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.began = datetime.now(UTC)

    @property
    def shell_python(self) -> str:
        return str(self.builder.paths.python)

    def program(self, module: str, *arguments: str) -> CommandResult:
        """Run a module of the package training in an empty folder."""
        with tempfile.TemporaryDirectory() as place:
            command = [self.shell_python, "-m", module, *arguments]
            return self.builder.shell.run(command, cwd=Path(place), environment=self.builder.our_path)

    @property
    def without_gpu(self) -> str:
        """The reason why GPUs cannot be tested; empty if they can."""
        return FOR_NO_GPU if not self.builder.for_gpus else "" if self.builder.gpus else NO_GPU_HERE

    @property
    def devices(self) -> tuple[str, ...]:
        """The arguments of matmul that select its devices."""
        return () if self.without_gpu else ("--every-gpu",)

    @cached_property
    def drivers(self) -> tuple[str, ...]:
        """The driver's version, once for each GPU. Raises HostTrouble if the driver does not answer."""
        command = ["nvidia-smi", "--query-gpu=driver_version,name", "--format=csv,noheader"]
        done = self.builder.shell.run(command, seconds=60)
        shown = tuple(line.partition(",")[0].strip() for line in done.output.splitlines() if "," in line)
        if not done.is_good or not shown:
            raise HostTrouble(
                f"nvidia-smi shows no GPU ({done.reason or 'exit code 0'}): {done.last_lines()}; the base image's "
                "driver does not fit the builder's GPU, or the builder's instance type has none"
            )
        return shown

    @cached_property
    def tensorflow_report(self) -> TensorFlowReport:
        """TensorFlow's facts about itself and this host. Raises HostTrouble if it cannot be imported."""
        done = self.program("training.baking.tensorflow_report")
        if not done.is_good:
            raise HostTrouble(f"TensorFlow cannot be imported ({done.reason}): {done.last_lines()}")
        return TensorFlowReport.from_output(done.output)

    @cached_property
    def driver(self) -> str:
        """The driver's version, followed by ` proprietary` if its kernel modules are not the open ones. Only
        proprietary modules support GPUs before Turing. Raises HostTrouble if the driver does not answer."""
        version = self.drivers[0]
        file = self.builder.paths.driver
        is_open = not file.exists() or OPEN_MODULES in file.read_text()
        return version if is_open else f"{version} proprietary"

    @property
    def versions(self) -> Versions:
        """The versions that could be found."""
        machine = platform.machine()
        for_gpus = self.builder.for_gpus
        return Versions(
            driver=_find(lambda: self.driver) if for_gpus else "none",
            cuda=_find(lambda: self.tensorflow_report.cuda) if for_gpus else "none",
            tensorflow=_find(lambda: self.tensorflow_report.tensorflow),
            architecture=EC2_ARCHITECTURES.get(machine, machine),
        )


def _find(look: Callable[[], str]) -> str:
    """Return the result of `look`; empty if it fails, which a test has already reported."""
    try:
        return look()
    except HostTrouble:
        return ""
