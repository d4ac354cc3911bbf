"""The numbers that a plain script leaves in the metrics.json of its working folder."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from training.host.paths import Paths
from training.host.reporting import results

HOUR = 3600.0


def paths_in(folder: Path, **files: dict[str, Any] | str) -> Paths:
    """Return the paths of a program that has written these files: `working` and `given`."""
    program = folder / "program"
    program.mkdir()
    places = {"working": program / "metrics.json", "given": folder / "metrics.json"}
    for name, content in files.items():
        places[name].write_text(content if isinstance(content, str) else json.dumps(content))
    return cast(Paths, SimpleNamespace(program=program, metrics=places["given"]))


WRITTEN = {"cost": 0.5, "seconds": 3, "note": "x", "done": True, "step": 40}


@pytest.mark.parametrize(
    ("name", "files", "found"),
    [
        ("cost", {"working": WRITTEN}, {"cost": 0.5}),
        ("costs", {"working": WRITTEN}, {"cost": 0.5, "seconds": 3}),
        (None, {"working": WRITTEN}, {}),
        ("cost", {"working": WRITTEN, "given": {"loss": 1.0}}, {}),
        ("cost", {"working": "no JSON"}, {}),
        ("cost", {}, {}),
    ],
)
def test_the_objective_counts_and_without_it_the_names_of_the_other_numbers(
    name: str | None, files: dict[str, Any], found: dict[str, Any], tmp_path: Path
) -> None:
    assert results.find_objective(name, paths_in(tmp_path, **files), HOUR) == found


def test_a_file_of_an_earlier_attempt_does_not_count(tmp_path: Path) -> None:
    paths = paths_in(tmp_path, working=WRITTEN)
    os.utime(paths.program / "metrics.json", (0, 0))
    assert results.find_objective("cost", paths, HOUR) == {}
