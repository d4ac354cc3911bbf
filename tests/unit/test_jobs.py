"""The jobs of `make test`: together all there is to run, and nothing twice."""

import tomllib
from pathlib import Path

from scripts.test import JOBS, ROOT, Job


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
