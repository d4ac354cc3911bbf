"""Packed programs, and warnings about them before a launch."""
# ruff: noqa: E501 - one line a row

import io
import os
import shutil
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from training.host.program.archive import unpack
from trainyard.client.errors import FileChanged, JobRefused
from trainyard.client.jobs import package, source, tree
from trainyard.client.jobs.source import LocalJob


@pytest.fixture
def src(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def write(folder: Path, files: dict[str, str | bytes]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


def job(src: Path, command: str = "[python, train.py]", **program: Any) -> LocalJob:
    file = Path("job.yaml")
    more = "".join(f", {key}: {value}" for key, value in program.items())
    file.write_text(f"name: mine\nprogram: {{source: ./src, command: {command}{more}}}\n")
    return source.read(file)


def faults(src: Path, **more: Any) -> list[str]:
    with pytest.raises(JobRefused) as refused:
        job(src, **more)
    return [str(fault) for fault in refused.value.faults]


def on_a_host(src: Path, tmp_path: Path) -> Path:
    """Return the folder into which a host unpacks the program."""
    (made,) = job(src).packages
    with (tmp_path / "p.tar.gz").open("wb") as file:
        made.pack(file)
    unpack(tmp_path / "p.tar.gz", tmp_path / "host", source="s3://b/p.tar.gz")
    return tmp_path / "host"


# --- the archive
def test_a_host_has_the_links_empty_folders_and_linked_folders(src: Path, tmp_path: Path) -> None:
    write(tmp_path / "shared", {"util.py": "x = 1\n"})
    write(src, {"v1/a.txt": "a"})
    (src / "common").symlink_to("../shared")
    (src / "current").symlink_to("v1")
    (src / "outputs").mkdir()
    there = on_a_host(src, tmp_path)
    assert (there / "common" / "util.py").read_text() == "x = 1\n"
    assert not (there / "common").is_symlink()
    assert (there / "current").readlink() == Path("v1")
    assert (there / "current" / "a.txt").read_text() == "a"
    assert list((there / "outputs").iterdir()) == []


@pytest.mark.parametrize("seconds", [0, 1, 946_684_800, 1_700_000_000, 9_999_999_999])
def test_a_program_can_zip_itself(src: Path, tmp_path: Path, seconds: int) -> None:
    os.utime(src / "train.py", (seconds, seconds))
    there = on_a_host(src, tmp_path)
    assert shutil.make_archive(str(tmp_path / "out"), "zip", there)
    if 315_619_200 <= seconds <= 4_354_732_800:
        assert (there / "train.py").stat().st_mtime == seconds


def test_an_archive_of_a_user_without_times_can_be_zipped_on_hosts_too(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "p.tar", "w") as made:
        made.addfile(tarfile.TarInfo("train.py"), io.BytesIO())
    unpack(tmp_path / "p.tar", tmp_path / "host", source="s3://b/p.tar")
    assert shutil.make_archive(str(tmp_path / "out"), "zip", tmp_path / "host")


def test_times_are_no_part_of_what_a_program_is_called(src: Path) -> None:
    before = job(src).packages[0].key
    os.utime(src / "train.py", (1, 1))
    assert job(src).packages[0].key == before


@pytest.mark.parametrize(
    "change",
    [
        lambda src: (src / "outputs").mkdir(),
        lambda src: (src / "link").symlink_to("train.py"),
        lambda src: (src / "train.py").chmod(0o755),
        lambda src: (src / "new.txt").write_text(""),
    ],
)
def test_what_a_host_would_see_is_part_of_what_a_program_is_called(
    src: Path, change: Callable[[Path], object]
) -> None:
    before = job(src).packages[0].key
    change(src)
    assert job(src).packages[0].key != before


def test_a_file_that_changes_meanwhile_is_named(src: Path) -> None:
    (made,) = job(src).packages
    (src / "train.py").write_text("print(2)  # longer\n")
    with pytest.raises(FileChanged, match=r"train\.py changed while it was read"):
        made.pack(io.BytesIO())
    (src / "train.py").unlink()
    with pytest.raises(FileChanged, match=r"train\.py vanished"):
        made.pack(io.BytesIO())


def test_a_file_that_vanishes_while_it_is_looked_at_is_a_fault(
    src: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = tree.tree_of_folder

    def and_then_gone(*given: Any, **named: Any) -> Any:
        found = look(*given, **named)
        (src / "train.py").unlink()
        return found

    monkeypatch.setattr(tree, "tree_of_folder", and_then_gone)
    (fault,) = faults(src)
    assert "train.py vanished while it was read" in fault


def test_a_program_that_is_too_large_is_refused_before_it_is_read(
    src: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "MOST_SOURCE_BYTES", 5 * 2**20)
    write(src, {"weights.pt": os.urandom(6 * 2**20), "text.txt": b"0" * 9 * 2**20})
    monkeypatch.setattr(package, "make_package", lambda *_: pytest.fail("it was read"))
    (fault,) = faults(src)
    assert "src is too large: it has 15.0 MiB, 6." in fault
    assert "the largest: text.txt (9.0 MiB), weights.pt (6.0 MiB)" in fault


def test_what_packs_well_is_not_too_large(src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MOST_SOURCE_BYTES", 2**20)
    write(src, {"text.txt": b"0" * 9 * 2**20})
    assert job(src).packages[0].packed_size < 2**20


def test_what_goes_along_is_described_with_its_largest_files(src: Path) -> None:
    write(src, {"w.pt": bytes(3 * 2**20), "v.pt": bytes(2**20)})
    assert job(src).packages[0].described == (
        "3 files, 4.0 MiB; the largest: w.pt (3.0 MiB), v.pt (1.0 MiB), train.py (9 B)"
    )


def test_an_unchanged_program_is_looked_at_and_never_packed(
    src: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package.Package, "pack", lambda *_: pytest.fail("it was packed"))
    begun = time.process_time()
    job(src)
    assert time.process_time() - begun < 5


# --- warnings before launch
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n"
WARNED: list[tuple[str, dict[str, str | bytes], str, str]] = [
    # name, files, command, warning
    ("a pointer of Git LFS", {"w.pt": POINTER}, "[python, train.py]", "src/w.pt: only a pointer of Git LFS"),
    ("a script with CRLF", {"run.sh": "#!/bin/bash\r\npython train.py\r\n"}, "[./run.sh]", r"sed -i 's/\r$//' src/run.sh"),
    ("that a shell runs", {"go": "python train.py\r\n", "run.sh": ""}, "[sh, run.sh]", ""),
    ("without a first line", {"run.sh": "python train.py\r\n"}, "[sh, run.sh]", "line ends of Windows"),
    ("conda", {"environment.yml": "dependencies: [numpy]\n"}, "[python, train.py]", "src/environment.yml is a list of conda"),
    ("a project", {"pyproject.toml": '[project]\ndependencies = ["x"]\n'}, "[python, train.py]", "echo '-e .' > requirements.txt"),
    ("a project without needs", {"pyproject.toml": "[tool.ruff]\n"}, "[python, train.py]", ""),
    ("Poetry", {"poetry.lock": ""}, "[python, train.py]", "poetry export"),
    ("a list that nothing names", {"requirements.txt": "x\n"}, "[python, train.py]", "requirements: requirements.txt below program"),
    ("what git ignores and the program names", {".gitignore": "data/\n", "data/a.csv": "1", "train.py": "open('data/a.csv')"}, "[python, train.py]", "echo '!/data/' >> src/.trainyardignore"),
    ("what git ignores and the program writes", {".gitignore": "outputs/\n", "outputs/a.csv": "1", "train.py": "open('outputs/a.csv')"}, "[python, train.py]", ""),
    ("text of a newer Python", {"train.py": "type X = int\n"}, "[python, train.py]", "may be valid for Python 3.12" if sys.version_info < (3, 12) else ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "command", "said"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED]
)
def test_what_will_probably_fail_is_said_before_launch(
    src: Path, files: dict[str, str | bytes], command: str, said: str
) -> None:
    write(src, files)
    if "run.sh" in files:
        (src / "run.sh").chmod(0o755)
    warnings = job(src, command=command).warnings
    assert [said in each for each in warnings] == ([True] if said else [])


REFUSED: list[tuple[str, dict[str, str | bytes], dict[str, str], str]] = [
    ("conda's list", {"environment.yml": "x"}, {"requirements": "environment.yml"}, "environment.yml is a list of conda"),
    ("a project", {"pyproject.toml": "x"}, {"requirements": "pyproject.toml"}, "echo '-e .' > requirements.txt"),
    ("Pipenv's", {"Pipfile": "x"}, {"requirements": "Pipfile"}, "pipenv requirements > requirements.txt"),
    ("uv's", {"sub/uv.lock": "x"}, {"requirements": "sub/uv.lock"}, "uv export"),
    ("a wheel that is missing", {"requirements.txt": "./wheels/x.whl\n"}, {"requirements": "requirements.txt"}, "names ./wheels/x.whl, which is not in the top folder"),
    ("in UTF-16", {"requirements.txt": "./x.whl\r\n".encode("utf-16")}, {"requirements": "requirements.txt"}, "names ./x.whl"),
    ("a program that git ignores", {".gitignore": "run.py\n", "run.py": "1"}, {"command": "[python, run.py]"}, "stays behind (named in .gitignore); to include it: echo '!/run.py' >> src/.trainyardignore"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "program", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_run_is_refused_with_what_mends_it(
    src: Path, files: dict[str, str | bytes], program: dict[str, str], said: str
) -> None:
    write(src, files)
    (fault,) = faults(src, **program)
    assert said in fault


def test_lists_that_bring_their_own_paths_are_accepted(src: Path) -> None:
    write(
        src, {"needs/requirements.txt": "-e ..\n./wheels/x.whl\n", "needs/wheels/x.whl": "", "setup.py": ""}
    )
    assert job(src, requirements="needs/requirements.txt").warnings == ()


@pytest.mark.parametrize(
    ("line", "there", "is_fault"),
    [
        ("-e .", (), True),
        ("./lib", ("lib/x.py",), True),
        ("-e ./lib[dev]", ("lib/setup.cfg",), True),
        ("-e .", ("pyproject.toml",), False),
        ("./lib", ("lib/setup.py",), False),
        ("--find-links ./wheels", ("wheels/x.whl",), False),
        ("./wheels/x.whl", ("wheels/x.whl",), False),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_folder_that_pip_cannot_build_is_refused_before_launch(
    src: Path, line: str, there: tuple[str, ...], is_fault: bool, encoding: str
) -> None:
    write(src, dict.fromkeys(there, ""))
    (src / "requirements.txt").write_bytes(f"numpy\n{line}\n".encode(encoding))
    if is_fault:
        (fault,) = faults(src, requirements="requirements.txt")
        assert "a folder without pyproject.toml or setup.py, so pip would fail" in fault
    else:
        assert job(src, requirements="requirements.txt").warnings == ()


def test_what_a_link_leads_to_is_found(src: Path) -> None:
    write(src, {"v1/model.py": "x = 1\n", "v1/__main__.py": ""})
    (src / "current").symlink_to("v1")
    (src / "train.py").unlink()
    assert job(src, command="[python, current/model.py]").warnings == ()
    assert "current/none.py is not in src" in faults(src, command="[python, current/none.py]")[0]
