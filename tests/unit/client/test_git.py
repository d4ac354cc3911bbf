"""Programs in git, cloned or in a work tree. The job records the program's commit."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainyard.client.errors import JobRefused
from trainyard.client.jobs import git as repositories
from trainyard.client.jobs import package, source
from trainyard.client.jobs.source import LocalJob

Git = Callable[..., None]


@pytest.fixture
def repository(tmp_path: Path, git: Git) -> Path:
    """Return a repository with two commits, the first with the tag v1."""
    folder = tmp_path / "src"
    (folder / "deep").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "deep" / "train.py").write_text("print('deep')\n")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "one")
    git("tag", "v1")
    (folder / "train.py").write_text("print(2)\n")
    git("commit", "-qam", "two")
    return folder


def read(tmp_path: Path, of: str, **more: Any) -> LocalJob:
    file = tmp_path / "job.yaml"
    file.write_text(f'name: mine\nprogram: {{source: "{of}", command: [python, train.py]}}\n')
    return source.read(file, **more)


def commit(folder: Path, of: str = "HEAD") -> str:
    return subprocess.check_output(["git", "rev-parse", of], cwd=folder, text=True).strip()


@pytest.mark.parametrize(
    ("ref", "text", "at"),
    [("", "print(2)\n", "HEAD"), ("@v1", "print(1)\n", "v1"), ("@main", "print(2)\n", "main")],
)
def test_a_repository_is_cloned_at_a_ref(
    tmp_path: Path, repository: Path, ref: str, text: str, at: str
) -> None:
    local = read(tmp_path, f"git+file://{repository}{ref}")
    (package,) = local.packages
    assert (package.root / "train.py").read_text() == text
    assert package.key.startswith("programs/by/YOU/src-")
    assert local.document["origin"]["commit"] == commit(repository, at)
    assert local.job.origin.ref == (ref[1:] or None)
    assert not local.job.origin.dirty
    assert "left out" not in " ".join(local.notes), "trainyard has made .git"


def test_a_commit_is_cloned_by_any_of_its_ids(tmp_path: Path, repository: Path) -> None:
    whole = commit(repository, "v1")
    keys = {read(tmp_path, f"git+file://{repository}@{each}").packages[0].key for each in (whole, whole[:10])}
    assert keys == {read(tmp_path, f"git+file://{repository}@v1").packages[0].key}


def test_a_subdirectory_is_the_program(tmp_path: Path, repository: Path) -> None:
    (package,) = read(tmp_path, f"git+file://{repository}#subdirectory=deep").packages
    assert [file.path for file in package.files] == ["train.py"]
    assert package.key.startswith("programs/by/YOU/deep-")


def test_two_clones_make_the_same_bytes(tmp_path: Path, repository: Path) -> None:
    made = [package.content_of(read(tmp_path, f"git+file://{repository}@v1").packages[0]) for _ in range(2)]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("@none", "it has no branch, tag or commit none"),
        ("-nowhere", "nowhere"),
        ("#subdirectory=none", "no folder none"),
        ("#subdirectory=..", "no"),
    ],
)
def test_a_repository_that_cannot_be_had_is_a_fault_with_gits_words(
    tmp_path: Path, repository: Path, more: str, said: str
) -> None:
    with pytest.raises(JobRefused) as refused:
        read(tmp_path, f"git+file://{repository}{more}")
    assert refused.value.faults[0].path == "program.source"
    assert said in refused.value.faults[0].problem


def test_a_clone_goes_with_the_job_that_needs_it(tmp_path: Path, repository: Path) -> None:
    local = read(tmp_path, f"git+file://{repository}")
    root = local.packages[0].root
    assert root.is_dir()
    del local
    assert not root.exists()


def test_a_folder_of_a_work_tree_has_its_commit_and_its_changes(
    tmp_path: Path, repository: Path, git: Git
) -> None:
    git("remote", "add", "origin", "https://me:secret@example.com/a/b.git")
    clean = read(tmp_path, "./src")
    assert (clean.document["origin"], clean.diffs) == (
        {
            "commit": commit(repository),
            "repository": "https://example.com/a/b.git",
            "ref": "main",
            "dirty": False,
        },
        {},
    )
    (repository / "train.py").write_text("print(3)\n")
    dirty = read(tmp_path, "./src")
    ((key, diff),) = dirty.diffs.items()
    assert (dirty.job.origin.dirty, dirty.job.origin.diff) == (True, key)
    assert b"+print(3)" in diff
    assert "with uncommitted changes" in dirty.job.origin.described


def test_a_long_diff_is_cut(tmp_path: Path, repository: Path) -> None:
    (repository / "train.py").write_text("print(3)\n" * 300_000)
    ((_, diff),) = read(tmp_path, "./src").diffs.items()
    assert len(diff) < 2**20 + 100
    assert diff.endswith(b"[cut: the diff is longer]\n")


def test_a_folder_without_git_has_no_commit(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    assert "origin" not in read(tmp_path, "./src").document


def test_a_folder_that_no_commit_has_has_no_commit(tmp_path: Path, repository: Path) -> None:
    (repository / "mine").mkdir()
    (repository / "mine" / "train.py").write_text("print(1)\n")
    assert "origin" not in read(tmp_path, "./src/mine").document


def test_the_commit_of_another_program_does_not_stay(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "train.py").write_text("print(1)\n")
    file = tmp_path / "job.yaml"
    file.write_text(
        "name: mine\nprogram: {source: ./other, command: [python, train.py]}\n"
        f"origin: {{commit: {commit(repository)}}}\n"
    )
    assert "origin" not in source.read(file).document


@pytest.mark.parametrize(
    ("source_", "parts"),
    [
        ("git+https://h/a/b.git", ("https://h/a/b.git", None, "")),
        ("git+https://h/a/b@feature/x", ("https://h/a/b", "feature/x", "")),
        ("git+ssh://git@h/a/b.git@v1#subdirectory=x/y", ("ssh://git@h/a/b.git", "v1", "x/y")),
        ("git+https://me:pw@h/a/b@v1#egg=b&subdirectory=x", ("https://me:pw@h/a/b", "v1", "x")),
    ],
)
def test_an_address_is_read_as_pip_reads_it(source_: str, parts: tuple[str, str | None, str]) -> None:
    assert repositories.parts_of(source_) == parts
