"""Job files on the user's computer, and the folders that are uploaded with them."""

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.unit.core import builders
from trainyard.client.errors import FileUnreadable, JobRefused
from trainyard.client.jobs import source
from trainyard.client.jobs.package import Package
from trainyard.client.yard import changes
from trainyard.core.jobfile import check
from trainyard.core.jobfile.written import as_file
from trainyard.core.model.job import Job
from trainyard.values import serialization

JOB = """
name: mine
program: {source: ./src, module: train, args: {lr: 0.1}}
data: {train: ./data, other: {source: s3://BUCKET/data/o/}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for name, text in {"src/train.py": "print(1)\n", "data/a.csv": "1\n", "data/sub/b.csv": "2\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    return file


def packages(job: Path) -> dict[str, Package]:
    return {package.key.partition("/")[0]: package for package in source.read(job).packages}


def keys(job: Path) -> dict[str, str]:
    return {kind: package.key for kind, package in packages(job).items()}


def test_folders_beside_the_job_file_become_places_in_the_bucket(job: Path) -> None:
    local = source.read(job, to=source.Destination("yard", "ada"))
    program, data = (package.key for package in local.packages)
    assert (local.job.program.source, local.job.data["train"].source) == (
        f"s3://yard/{program}",
        f"s3://yard/{data}",
    )
    assert program.startswith("programs/by/ada/src-")
    assert program.endswith(".tar.gz")
    assert [file.path for file in packages(job)["data"].files] == ["a.csv", "sub/b.csv"]
    assert local.document["program"]["source"] == f"s3://BUCKET/{program}"


def test_a_place_is_named_by_its_content_and_by_nothing_else(job: Path) -> None:
    before = keys(job)
    os.utime(job.parent / "src" / "train.py", (1, 1))
    (job.parent / "src" / "__pycache__").mkdir()
    (job.parent / "src" / "__pycache__" / "train.pyc").write_text("compiled")
    assert keys(job) == before
    (job.parent / "src" / "train.py").write_text("print(2)\n")
    after = keys(job)
    assert (after["programs"] == before["programs"], after["data"] == before["data"]) == (False, True)


def test_the_same_files_make_the_same_archive(job: Path) -> None:
    made = []
    for _ in range(2):
        buffer = io.BytesIO()
        packages(job)["programs"].pack(buffer)
        made.append(buffer.getvalue())
    assert made[0] == made[1]
    with tarfile.open(fileobj=io.BytesIO(made[0])) as archive:
        assert archive.getnames() == ["train.py"]


@pytest.mark.parametrize("name", ["one.py", "packed.tar.gz"])
def test_a_program_may_be_one_file(job: Path, name: str) -> None:
    (job.parent / name).write_bytes(
        source.pack_folder(job.parent / "src") if name.endswith("gz") else b"print(1)\n"
    )
    job.write_text(
        JOB.replace("./src", f"./{name}").replace(
            "module: train", f"module: {'train' if name.endswith('gz') else 'one'}"
        )
    )
    assert source.read(job).packages[0].key.endswith(".tar.gz")


@pytest.mark.parametrize("name", ["code.zip", "Code.ZIP", "code.tar.bz2", "code.7z", "code.tar.xz"])
def test_an_archive_that_hosts_do_not_unpack_is_refused_with_what_to_write(job: Path, name: str) -> None:
    (job.parent / name).write_bytes(b"PK\3\4")
    job.write_text(JOB.replace("./src", f"./{name}"))
    with pytest.raises(JobRefused) as refused:
        source.read(job)
    (fault, *_) = refused.value.faults
    ending = name[4:].lower()
    assert fault.path == "program.source"
    assert (
        f"is an archive that hosts do not unpack ({ending}); unpack it, and name the folder" in fault.problem
    )
    assert fault.problem.endswith(f"{name[:4]}")


def test_all_faults_are_told_at_once(job: Path) -> None:
    job.write_text(JOB.replace("./src", "./nowhere").replace("./data", "../none") + "limits: {hours: -1}\n")
    with pytest.raises(JobRefused) as refused:
        source.read(job)
    assert [fault.path for fault in refused.value.faults] == ["program.source", "data.train", "limits.hours"]


def test_a_program_that_cannot_start_is_a_fault(job: Path) -> None:
    job.write_text(JOB.replace("module: train", "module: trian"))
    with pytest.raises(JobRefused, match="trian"):
        source.read(job)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileUnreadable, match="No such file"):
        source.read(tmp_path / "none.yaml")


def test_a_file_that_names_its_own_bucket_is_checked_offline(job: Path) -> None:
    job.write_text(JOB.replace("s3://BUCKET/data/o/", "s3://my-bucket/data/o/"))
    assert source.read(job).job.data["other"].source == "s3://my-bucket/data/o/"


CHANGES: list[tuple[dict[str, Any], list[str], Any]] = [
    ({"set": {"args.lr": 0.5}}, ["program", "args", "lr"], 0.5),
    ({"set": {"limits.hours": 2}}, ["limits", "hours"], 2),
    ({"set": {"program.args.lr": None}}, ["program", "args"], {}),
    ({"name": "other"}, ["name"], "other"),
    ({"labels": {"team.name": "vision"}}, ["labels"], {"team.name": "vision"}),
    ({"resume": "mine-1"}, ["checkpoints", "resume"], "mine-1"),
]


@pytest.mark.parametrize(("asked", "path", "value"), CHANGES, ids=[str(row[0]) for row in CHANGES])
def test_a_job_is_submitted_with_changes(
    job: Path, asked: dict[str, Any], path: list[str], value: Any
) -> None:
    found: Any = source.read(job, changes=changes(**asked)).document
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize("key", ["name.x", "", "program.module.x"])
def test_a_change_that_leads_nowhere_is_a_fault(job: Path, key: str) -> None:
    with pytest.raises(JobRefused, match="no such key"):
        source.read(job, changes={key: 1})


@pytest.mark.parametrize(
    "said",
    [
        {},
        {
            "program": {
                "source": "s3://BUCKET/programs/x.tar.gz",
                "command": ["torchrun", "--nnodes=2", 3, "train.py"],
                "args": ["gpu", 1500, 0.5],
            },
            "hardware": {"zones": ["us-east-1a"], "disk_gib": 200},
        },
        {"cluster": {"workers": 2, "evaluator": True}, "hardware": {"cpu_roles": ["evaluator"]}},
        {"cluster": {"workers": 2, "evaluator": True}},
    ],
    ids=["a module", "a command", "an evaluator without a GPU", "an evaluator with one"],
)
def test_an_admitted_job_is_a_file_again_that_says_the_same(said: dict[str, Any]) -> None:
    admitted = builders.job(**said)
    assert serialization.from_json(Job, serialization.to_json(admitted)) == admitted
    assert (
        check.check(as_file(serialization.to_json(admitted)), source="job.yaml", bucket=builders.BUCKET)
        == admitted
    )
