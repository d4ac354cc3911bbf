"""Hosts obey every key of a job that concerns them, and the control plane obeys all others."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard.core.model.hardware import Cluster, Hardware
from trainyard.core.model.job import After, Checkpoints, Job, Limits, Outputs, Pool
from trainyard.core.model.program import Data, Program
from trainyard.core.model.yard.policy import Policy
from trainyard.protocol.objective import Objective

ROOT = Path(__file__).resolve().parents[3]

SECTIONS = {
    "program": Program,
    "data": Data,
    "cluster": Cluster,
    "checkpoints": Checkpoints,
    "outputs": Outputs,
    "limits": Limits,
    "pool": Pool,
    "objective": Objective,
}
"""The sections of job.json that hosts read. Only the control plane reads `hardware`, `after` and others."""
CONTROL_PLANES = {
    *(("cluster", key) for key in ("strategy", "parameter_servers", "chief", "evaluator")),
    ("data", "listed"),
    ("pool", "minutes"),
    ("objective", "goal"),
    *(("limits", key) for key in ("hours", "dollars", "restarts")),
}
"""Keys that hosts do not need: cluster.json has roles, strategy and deadline."""
THROUGH = {
    ("cluster", "workers"): "least_workers",
    ("data", "mode"): "is_mounted",
    ("outputs", "restore"): "are_restored",
}


def attributes(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield each attribute that a folder reads, with the name that it is read from; `cluster` is the job's only."""
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                of = node.value
                name = getattr(of, "attr", getattr(of, "id", ""))
                is_jobs = (
                    isinstance(of, ast.Attribute)
                    and getattr(of.value, "attr", getattr(of.value, "id", "")) == "job"
                )
                yield "cluster.json" if name == "cluster" and not is_jobs else name, node.attr


READ = frozenset(attributes("training/host"))
READ_BY_CONTROL_PLANE = {key for _, key in attributes("lambdas", "trainyard/core")}


@pytest.mark.parametrize(
    ("section", "key"),
    [(section, each.name) for section, kind in SECTIONS.items() for each in dataclasses.fields(kind)],
)
def test_hosts_read_every_key_of_a_job_that_is_for_them(section: str, key: str) -> None:
    """Hosts must read a new key, unless CONTROL_PLANES lists it."""
    reads = (section, THROUGH.get((section, key), key)) in READ
    is_for_hosts = (section, key) not in CONTROL_PLANES
    assert reads or not is_for_hosts, (
        f"hosts do not read {section}.{key}: use it in training/host, or list it in CONTROL_PLANES of this file"
    )
    assert is_for_hosts or not reads, (
        f"hosts read {section}.{key}: remove it from CONTROL_PLANES of this file"
    )


@pytest.mark.parametrize(
    ("section", "key"),
    [
        *sorted(CONTROL_PLANES - {("objective", "goal")}),
        *(
            (section, each.name)
            for section, kind in {"hardware": Hardware, "after": After, "policy": Policy}.items()
            for each in dataclasses.fields(kind)
        ),
    ],
)
def test_the_control_plane_reads_every_other_key(section: str, key: str) -> None:
    assert THROUGH.get((section, key), key) in READ_BY_CONTROL_PLANE


def test_every_section_of_a_job_is_for_hosts_or_for_the_control_plane() -> None:
    known = {
        *SECTIONS,
        "name",
        "hardware",
        "after",
        "labels",
        "policy",
        "origin",
        "predict",
        "study",
        "track",
        "telemetry",
        "nccl_check_seconds",
        "notify",
        "schedule",
        "start_after",
        "priority",
    }
    assert {each.name for each in dataclasses.fields(Job)} == known
