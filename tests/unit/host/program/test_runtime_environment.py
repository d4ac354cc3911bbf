"""The runtime reads the variables that the agent sets. Its packages exist only on hosts, so the test reads its text."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from trainyard.core.model.job import Checkpoints

ROOT = Path(__file__).resolve().parents[4]


def literals_in(path: str, function: str) -> Iterator[str]:
    """Yield every literal text in a function of this file."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            yield from (
                str(each.value)
                for each in ast.walk(node)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def test_the_runtime_reads_what_hosts_tell_a_program_by_the_same_names() -> None:
    told = {
        each
        for each in literals_in("training/host/program/environment.py", "environment")
        if re.fullmatch(r"TRAINYARD_[A-Z_]*[A-Z]", each)
    }
    read = {
        f"TRAINYARD_{each.removeprefix('TRAINYARD_')}"
        for each in literals_in("trainyard/runtime/environment.py", "from_os")
        if re.fullmatch(r"[A-Z][A-Z_]*[A-Z]", each) and each != "TF_CONFIG"
    }
    at_home_only, for_programs_only = {"TRAINYARD_DEVICES"}, told - read
    assert read - told == at_home_only
    assert for_programs_only == {
        "TRAINYARD_ATTEMPT",
        "TRAINYARD_ROLE",
        "TRAINYARD_INDEX",
        "TRAINYARD_NOTEBOOK",
        "TRAINYARD_WORKERS",
    }


def test_a_program_by_hand_saves_as_a_job_that_says_nothing_of_it() -> None:
    texts = list(literals_in("trainyard/runtime/environment.py", "from_os"))
    defaults = dict(itertools.pairwise(texts))
    said = Checkpoints()
    assert float(defaults["CHECKPOINT_STEPS"]) == said.steps
    assert float(defaults["CHECKPOINT_SECONDS"]) == said.seconds
    assert float(defaults["CHECKPOINT_KEEP"]) == said.keep
