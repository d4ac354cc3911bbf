"""Lists of packages: the folder that their paths start from, and their hashes."""

import codecs
import random
from pathlib import Path

import pytest
from pip._internal.req import req_file

from training.host.paths import Paths
from training.host.program import packages
from training.host.program.packages import hash_of_list
from trainyard.core.jobfile.package_lists import base_of, lines_of, paths_in, text_of

LIST = """# what we need
-e .
-e ../lib[dev]
./wheels/a.whl ; python_version > "3"
b-1.whl
-r other.txt
--find-links wheels
numpy==2
torch>=2 --index-url https://x/simple
foo @ https://x/y.whl
git+https://x/y
./pkg --hash=sha256:00
/opt/absolute.whl
${HOME}/x.whl
"""
PATHS = (".", "../lib", "./wheels/a.whl", "b-1.whl", "wheels", "./pkg")


@pytest.mark.parametrize(
    "content",
    [
        LIST.encode(),
        LIST.replace("\n", "\r\n").encode(),
        codecs.BOM_UTF8 + LIST.encode(),
        codecs.BOM_UTF16_LE + LIST.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + LIST.replace("\n", "\r\n").encode("utf-16-be"),
        codecs.BOM_UTF32_LE + LIST.encode("utf-32-le"),
    ],
)
def test_paths_are_found_in_a_list_however_it_is_written(content: bytes) -> None:
    assert paths_in(content) == PATHS
    assert text_of(content).startswith("# what")


@pytest.mark.parametrize(
    ("there", "paths", "base"),
    [
        ({"needs/wheels/x.whl"}, ("./wheels/x.whl",), "needs"),
        ({"wheels/x.whl"}, ("./wheels/x.whl",), ""),
        ({"wheels/x.whl", "needs/wheels/x.whl"}, ("./wheels/x.whl",), "needs"),
        ({"lib"}, ("../lib",), "needs"),
        ({"needs/a.whl", "b.whl"}, ("a.whl", "b.whl"), None),
        (set(), (), "needs"),
    ],
)
def test_paths_start_at_the_list_or_at_the_top(
    there: set[str], paths: tuple[str, ...], base: str | None
) -> None:
    assert base_of(paths, "needs", there.__contains__) == base


PARTS = ["numpy", "# why", " # why", "\\", " \\", "./evil", "-r more.txt", "\n", "\t", "==2", "#", " "]


@pytest.mark.parametrize("seed", range(300))
def test_a_list_is_read_as_pip_reads_it(seed: int) -> None:
    text = "".join(random.Random(seed).choices(PARTS, k=12))
    assert lines_of(text) == [line for _, line in req_file.preprocess(text)]


@pytest.mark.parametrize("line", ["-e .", "./x.whl", "x-1.whl", "lib/mine", "x @ file:///y"])
def test_a_list_that_brings_files_of_the_program_is_no_other_runs(line: str) -> None:
    assert hash_of_list(f"numpy==2\n{line}\n") is None
    assert hash_of_list("numpy==2\n") is not None


@pytest.mark.parametrize(("where", "wheel"), [("needs", "needs/x.whl"), ("", "x.whl")])
def test_pip_runs_in_the_folder_that_the_paths_start_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, wheel: str
) -> None:
    paths = Paths(tmp_path)
    (paths.program / "needs").mkdir(parents=True)
    (paths.program / "needs" / "requirements.txt").write_text("./x.whl\n")
    (paths.program / wheel).write_text("")
    (paths.venv / "lib" / "python3.12" / "site-packages").mkdir(parents=True)
    (paths.root / "opt/trainyard/venv/lib/python3.12/site-packages").mkdir(parents=True)
    ran: list[tuple[list[str], Path | None]] = []

    def record(arguments: list[str], doing: str, *, seconds: float = 0, folder: Path | None = None) -> str:
        ran.append((list(arguments), folder))
        return ""

    monkeypatch.setattr(packages, "command", record)
    monkeypatch.setattr(packages, "bring_commands", lambda *_: None)
    packages.install("needs/requirements.txt", paths)
    words, folder = ran[-1]
    assert folder == paths.program / where
    assert "-P" in words  # keeps pip from importing the program's random.py
