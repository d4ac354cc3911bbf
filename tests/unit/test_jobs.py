"""The jobs of `make test` together run each test exactly once."""

import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

from scripts.test import JOBS, ROOT, Bench, Job, failures, summary


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


@pytest.mark.parametrize(
    ("log", "named"),
    [
        (
            "...F\nFAILED tests/a.py::test_b - assert 1 == 2\nERROR tests/c.py::test_d\n== 1 failed in 1.00s ==\n",
            2,
        ),
        ("ImportError while loading conftest\nno module named moto\n", 2),
        ("", 0),
    ],
)
def test_a_failed_job_names_its_tests_at_once(log: str, named: int) -> None:
    assert len(failures(log).splitlines()) == named


class HangingJob(Job):
    """A job whose only test never ends."""

    @property
    def command(self) -> list[str]:
        return [
            sys.executable,
            "-c",
            "import time; print('tests/e2e/test_x.py .', flush=True); time.sleep(600)",
        ]


def test_a_job_that_hangs_is_named_and_ended(capsys: pytest.CaptureFixture[str]) -> None:
    job, bench = HangingJob("hanging", ()), Bench({})
    job.log.parent.mkdir(exist_ok=True)
    running = threading.Thread(target=bench.run, args=(job,))
    running.start()
    try:
        while not (job.log.exists() and job.log.read_text()):
            time.sleep(0.05)
        bench.end_late_jobs()
        running.join()
    finally:
        job.log.unlink()
    assert "ended: hanging\ntests/e2e/test_x.py ." in capsys.readouterr().out
    assert bench.ended == 1
