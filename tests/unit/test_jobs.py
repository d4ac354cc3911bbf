"""The jobs of `make test`: together all there is to run, and nothing twice."""

import tomllib
from pathlib import Path

import pytest

from scripts.test import JOBS, ROOT, Job, summary


def runs(job: Job, file: Path) -> bool:
    found = [Path(word) for word in job.command[3:] if not word.startswith("--")]
    beside = [ROOT / path for path in job.beside]
    return any(file.is_relative_to(path) for path in found) and not any(
        file.is_relative_to(path) for path in beside
    )


def test_each_file_of_tests_is_in_one_job() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = settings["tool"]["pytest"]["ini_options"]["testpaths"]
    files = {file for folder in folders for file in (ROOT / folder).rglob("test_*.py")}
    jobs = {str(file.relative_to(ROOT)): [job.name for job in JOBS if runs(job, file)] for file in files}
    assert {file: names for file, names in jobs.items() if len(names) != 1} == {}
    assert len(files) > len(JOBS)


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ("collected 2 items\n==== 2 passed in 1.20s ====\n", "2 passed in 1.20s"),
        ("==== 1 failed in 3.00s ====\nthe bus does not take failed yet: refused\n", "1 failed in 3.00s"),
        ("==== 9 passed in 61.00s (0:01:01) ====\n", "9 passed in 61.00s (0:01:01)"),
        ("==== test session starts ====\ncollected 2 items\nKilled\n", "Killed"),
        ("no module named pytest\n", "no module named pytest"),
        ("", ""),
    ],
)
def test_a_jobs_line_is_its_pytests_outcome(log: str, outcome: str) -> None:
    assert summary(log) == outcome
