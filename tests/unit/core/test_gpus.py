"""GPUs by kind, count and memory become instance types of the catalog."""

from typing import Any

import pytest

from trainyard.core.jobfile.check import check
from trainyard.core.model.gpus import MEMORY_GB, Wanted, choose
from trainyard.core.model.instance_types import catalog
from trainyard.core.model.job import Job
from trainyard.values.validation import InputFaults


@pytest.mark.parametrize(
    ("wanted", "first", "missing"),
    [
        (Wanted(("T4",), 1), "g4dn.xlarge", ""),
        (Wanted(("NVIDIA L40S",), 8), "g6e.48xlarge", ""),
        (Wanted(("A100-80GB",), 8), "p4de.24xlarge", ""),
        (Wanted(("A100 80GB PCIe",), 8), "p4de.24xlarge", ""),
        (Wanted(("H100-SXM",), 8), "p5.48xlarge", ""),
        (Wanted((), 4, 40), "g6e.12xlarge", ""),
        (Wanted(("L4", "A10G"), 1, vcpus=8), "g6.2xlarge", ""),
        (Wanted(("A100",), 1), "g6e.xlarge", "no EC2 instance type has 1 A100"),
        (Wanted(("H100",), 3), "p5.48xlarge", "no EC2 instance type has 3 H100"),
        (Wanted((), 3), "g4dn.12xlarge", "no EC2 instance type has 3 GPUs"),
        (Wanted(("V100",), 4), "g4dn.12xlarge", "no image of a yard works on hosts with V100"),
        (Wanted(("RTX4090",), 1), "g6.xlarge", "no EC2 instance type has the GPU RTX4090"),
    ],
)
def test_the_cheapest_instance_types_come_first(wanted: Wanted, first: str, missing: str) -> None:
    chosen = choose(wanted)
    assert chosen.types[0] == first
    assert "; ".join(chosen.missing) == missing


@pytest.mark.parametrize(
    ("wanted", "first", "missing"),
    [
        (Wanted(("H100",), 16), "p5.48xlarge", "no EC2 instance type has 16 H100"),
        (Wanted((), 16, 40), "p4d.24xlarge", "no EC2 instance type has 16 GPUs with 40 GB or more"),
        (Wanted((), 1, 500), "p6-b300.48xlarge", "no EC2 instance type has 1 GPU with 500 GB or more"),
        (Wanted((), 1, vcpus=9999), "p6-b300.48xlarge", "no EC2 instance type has 1 GPU"),
    ],
)
def test_more_than_any_instance_type_has_finds_the_nearest(wanted: Wanted, first: str, missing: str) -> None:
    chosen = choose(wanted)
    assert chosen.types[0] == first
    assert chosen.missing == (missing,)


def test_the_memory_of_every_gpu_of_the_catalog_is_known() -> None:
    assert {kind.gpu for kind in catalog().types.values() if kind.gpus} == MEMORY_GB.keys()


def job_with(hardware: dict[str, Any]) -> Job | InputFaults:
    job = {"name": "a", "program": {"module": "training.programs.digits"}, "hardware": hardware}
    return check(job, source="job.yaml", bucket="b")


@pytest.mark.parametrize(
    ("hardware", "first"),
    [
        ({"gpus": 8, "gpu": "H100"}, "p5.48xlarge"),
        ({"gpus": 4, "gpu_memory": 24}, "g6.12xlarge"),
        ({"gpu": "l4"}, "g6.xlarge"),
        ({"gpu_memory": 40}, "g6e.xlarge"),
    ],
)
def test_a_job_may_name_gpus_instead_of_instance_types(hardware: dict[str, Any], first: str) -> None:
    job = job_with(hardware)
    assert isinstance(job, Job)
    assert job.hardware.instance_types[0] == first
    assert (job.hardware.gpus, job.hardware.gpu, job.hardware.gpu_memory) == (None, None, None)


@pytest.mark.parametrize(
    ("hardware", "path", "problem"),
    [
        (
            {"gpus": 3, "gpu": "H100"},
            "hardware.gpus",
            "nearest: p5.48xlarge (8 H100 of 80 GB, $55.04 an hour",
        ),
        ({"gpu": "RTX4090"}, "hardware.gpu", "nearest: g6.xlarge (1 L4 of 24 GB"),
        ({"gpu_memory": 500}, "hardware.gpu_memory", "nearest: p6-b300.48xlarge (8 B300"),
        (
            {"gpu": "L4", "instance_types": ["g6.xlarge"]},
            "hardware.gpu",
            "cannot be combined with hardware.instance_types",
        ),
        ({"gpus": 0}, "hardware.gpus", "a whole number from 1 to 64 is allowed"),
        ({"gpu": "a/b"}, "hardware.gpu", "the name of a GPU, as in H100"),
    ],
)
def test_gpus_that_no_instance_type_has_are_refused_with_the_nearest(
    hardware: dict[str, Any], path: str, problem: str
) -> None:
    faults = job_with(hardware)
    assert isinstance(faults, InputFaults)
    assert faults.faults[0].path == path
    assert problem in faults.faults[0].problem
