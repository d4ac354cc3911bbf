"""Files that cannot be read or written: one line and a usage exit code, in every command that uses files."""

import errno
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from botocore import exceptions
from typer.testing import CliRunner

from trainyard.cli import failures, parts
from trainyard.cli.app import app
from trainyard.cli.options import Options
from trainyard.client.runs.files import DOCUMENTS
from trainyard.exit_codes import ExitCode

ROOT = Path(__file__).parents[3]
JOB = "name: x\nprogram: {module: training.programs.matmul}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "text").write_text("a file")
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "latin.yaml").write_bytes("name: caf\xe9\n".encode("latin-1"))
    (tmp_path / "broken.yaml").write_text("name: [x\nprogram: }\n")
    (tmp_path / "tabs.yaml").write_text("name:\n\tx\n")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "large.yaml").write_text("#" * 70_000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


FILES = [
    ("missing.yaml", "No such file or directory"),
    ("folder.yaml", "Is a directory"),
    ("loop.yaml", "Too many levels of symbolic links"),
    ("text/job.yaml", "Not a directory"),
    ("n" * 300 + ".yaml", "File name too long"),
    ("missing.ipynb", "No such file or directory"),
    ("latin.yaml", "not UTF-8"),
    ("broken.yaml", "line 2"),
    ("tabs.yaml", "line 2"),
    ("broken.json", "not JSON"),
    ("large.yaml", "70000 bytes"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("file", "said"), FILES, ids=[row[0][:20] for row in FILES])
def test_a_job_file_that_cannot_be_read_is_one_line(file: str, said: str) -> None:
    done = CliRunner().invoke(app, ["check", file])
    assert done.exit_code == ExitCode.USAGE
    what, means, step = done.stderr.splitlines()
    assert file in what
    assert said in what
    assert means
    assert step.startswith("Next: ")
    assert "trainyard check" not in step


def parameters(group: typer.Typer = app) -> Iterator[inspect.Parameter]:
    """Yield the parameters of every command."""
    for each in group.registered_commands:
        assert each.callback
        yield from inspect.signature(each.callback).parameters.values()
    for inner in group.registered_groups:
        assert inner.typer_instance
        yield from parameters(inner.typer_instance)


def test_no_command_lets_typer_look_at_files() -> None:
    """The four lines of usage would hide why the file is unreadable."""
    of_files = [each for each in parameters() if "Path" in str(each.annotation)]
    assert of_files
    assert [each.name for each in of_files if each.annotation.__metadata__[0].readable] == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("target", ["text", "text/inner", "loop.yaml/x"])
def test_init_into_what_is_no_folder_is_one_line(target: str) -> None:
    done = CliRunner().invoke(app, ["init", target])
    assert done.exit_code == ExitCode.USAGE
    assert len(done.stderr.splitlines()) == 3


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "m/weights"),
        IsADirectoryError(errno.EISDIR, "Is a directory", "m/weights"),
        OSError(errno.ENAMETOOLONG, "File name too long", "m/weights"),
        OSError(errno.EROFS, "Read-only file system", "m/half", None, "m/weights"),
    ],
    ids=lambda error: errno.errorcode[error.errno],
)
def test_any_file_that_cannot_be_used_is_named_and_no_bug(
    error: OSError, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, failures.show_failures(Options()):
        raise error
    assert ended.value.exit_code == ExitCode.USAGE
    first, *_ = capsys.readouterr().err.splitlines()
    assert first == f"m/weights: {error.strerror}"


def test_an_error_of_the_system_that_names_no_file_is_a_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(typer.Exit) as ended, failures.show_failures(Options()):
        raise OSError(errno.EMFILE, "Too many open files")
    assert ended.value.exit_code == ExitCode.BUG


def test_a_connection_that_breaks_in_the_middle_is_no_bug(capsys: pytest.CaptureFixture[str]) -> None:
    broken = exceptions.ResponseStreamingError(error="IncompleteRead(100 bytes read)")
    with pytest.raises(typer.Exit) as ended, failures.show_failures(Options()):
        raise broken
    assert ended.value.exit_code == ExitCode.NO_ANSWER
    assert "the connection broke" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_output_that_does_not_fit_its_disk_is_one_line(folder: Path) -> None:
    (folder / "job.yaml").write_text(JOB)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "trainyard.cli", "check", "job.yaml", "-o", "json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert done.returncode == ExitCode.USAGE
    said = json.loads(done.stderr)
    assert said["what"] == "No space left on device"


@pytest.mark.parametrize("word", [*parts.FOLDERS, "everything", *DOCUMENTS])
def test_each_folder_and_document_of_a_run_can_be_fetched_by_its_name(word: str) -> None:
    assert parts.parse(word) == word
