"""All shipped job files are valid, and read data that the demo can generate."""

from pathlib import Path

import pytest

from scripts.datasets import DIGITS, MNIST, SENTIMENT, read_by
from scripts.local_yard import ROOT
from trainyard.client.jobs import source
from trainyard.core.jobfile import check
from trainyard.core.model.job import Job

FRAMEWORKS = sorted((ROOT / "examples" / "frameworks").glob("*.yaml"))
JOBS = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_shipped_job_is_admitted_and_documented(path: Path) -> None:
    job = check.parse(path.read_bytes(), source=path.name, bucket="yard")
    assert isinstance(job, Job), str(job)
    shipped = {data_set.prefix for data_set in read_by(path.read_text())}
    for entry in job.data.values():
        assert any(entry.source.startswith(f"s3://yard/{prefix}") for prefix in shipped)
    if path.parent.name == "examples":
        pages = [page.read_text() for page in (ROOT / "docs" / "examples").glob("*.md")]
        assert any(f"make demo JOB=examples/{path.name}" in page for page in pages)


@pytest.mark.parametrize("path", FRAMEWORKS, ids=lambda path: path.stem)
def test_a_job_of_another_framework_is_admitted_with_its_folder_and_documented(path: Path) -> None:
    local = source.read(path)
    assert [package.root.name for package in local.packages] == [path.stem]
    assert local.warnings == ()
    page = (ROOT / "docs" / "examples" / f"{path.stem}.md").read_text()
    assert f"trainyard submit examples/frameworks/{path.name}" in page


def test_a_job_names_the_shipped_data_it_reads() -> None:
    assert read_by("train: s3://BUCKET/data/mnist/") == [MNIST]
    assert read_by("a: s3://x/data/digits/train/\nb: s3://x/data/sentiment/") == [DIGITS, SENTIMENT]
    assert read_by("train: s3://BUCKET/data/mine/") == []
