"""Hosts obey every key of a job that concerns them."""

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainyard.core.model.hardware import Cluster
from trainyard.core.model.job import Checkpoints, Job, Limits, Outputs, Pool
from trainyard.core.model.program import Data, Program

HOST = Path(__file__).resolve().parents[3] / "training/host"


SECTIONS = {
    "program": Program,
    "data": Data,
    "cluster": Cluster,
    "checkpoints": Checkpoints,
    "outputs": Outputs,
    "limits": Limits,
    "pool": Pool,
}
"""The sections of job.json that hosts read. Only the control plane reads `hardware`, `after`, and `policy`."""
CONTROL_PLANES = {
    *(("cluster", key) for key in ("strategy", "parameter_servers", "chief", "evaluator")),
    ("pool", "minutes"),
    *(("limits", key) for key in ("hours", "dollars", "restarts")),
}
"""Keys that hosts do not need: cluster.json has roles, strategy and deadline."""
THROUGH = {("cluster", "workers"): "least_workers", ("outputs", "restore"): "are_restored"}


def attributes() -> Iterator[tuple[str, str]]:
    """Yield each attribute that hosts read, with the name that it is read from; `cluster` is the job's only."""
    for path in sorted(HOST.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                of = node.value
                name = getattr(of, "attr", getattr(of, "id", ""))
                is_jobs = (
                    isinstance(of, ast.Attribute)
                    and getattr(of.value, "attr", getattr(of.value, "id", "")) == "job"
                )
                if name != "cluster" or is_jobs:
                    yield name, node.attr


READ = frozenset(attributes())


@pytest.mark.parametrize(
    ("section", "key"),
    [(section, each.name) for section, kind in SECTIONS.items() for each in dataclasses.fields(kind)],
)
def test_hosts_read_every_key_of_a_job_that_is_for_them(section: str, key: str) -> None:
    """Hosts must read a new key, unless CONTROL_PLANES lists it."""
    reads = (section, THROUGH.get((section, key), key)) in READ
    assert reads is ((section, key) not in CONTROL_PLANES)


def test_every_section_of_a_job_is_for_hosts_or_for_the_control_plane() -> None:
    known = {*SECTIONS, "name", "hardware", "after", "labels", "policy", "origin"}
    assert {each.name for each in dataclasses.fields(Job)} == known
