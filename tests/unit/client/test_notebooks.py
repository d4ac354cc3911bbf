"""Jobs made from notebooks, before anything is uploaded."""

import json
import math
import sys
import warnings
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from trainyard.client.errors import JobRefused
from trainyard.client.jobs import notebooks
from trainyard.client.jobs.source import LocalJob, read
from trainyard.notebook import document
from trainyard.notebook.__main__ import parameters


def cell(source: str, *tags: str, kind: str = "code") -> dict[str, Any]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {"tags": [*tags]}}


def write(folder: Path, *cells: dict[str, Any], name: str = "Train Digits.ipynb", **content: Any) -> Path:
    file = folder / name
    whole: dict[str, Any] = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [*cells]}
    file.write_text(json.dumps(whole | content))
    return file


def refusal(file: Path, **changes: Any) -> str:
    with pytest.raises(JobRefused) as refused:
        read(file, changes=changes)
    return str(refused.value)


def given(job: LocalJob) -> dict[str, object]:
    """Return the parameters that the notebook's cells receive on the host."""
    args = job.job.program.args
    assert isinstance(args, dict)
    return parameters([word for name, value in args.items() for word in (f"--{name}={value}",)])


def test_a_notebook_is_a_job_whose_program_is_the_notebook_alone(tmp_path: Path) -> None:
    (tmp_path / "big.bin").write_bytes(b"\0" * 1000)
    local = read(write(tmp_path, cell("print(1)")))
    assert local.job.name == "train-digits"
    assert local.job.program.command == ("python", "-m", "trainyard.notebook", "Train Digits.ipynb")
    (package,) = local.packages
    assert [file.path for file in package.files] == ["Train Digits.ipynb"]
    assert local.warnings == ()


@pytest.mark.parametrize(
    ("name", "job"),
    [("2026-11.ipynb", "notebook-2026-11"), ("Übung_3.ipynb", "bung-3"), (f"{'a' * 60}.ipynb", "a" * 40)],
)
def test_its_job_is_called_as_its_file_as_far_as_a_job_may_be(tmp_path: Path, name: str, job: str) -> None:
    assert read(write(tmp_path, cell("1"), name=name)).job.name == job


@pytest.mark.parametrize(
    "value", [3, 0.5, True, False, None, "adam", "3", "true", "-x", "", [1, 2], {"a": 1}, 'say "hi"', "a b"]
)
def test_a_parameter_reaches_its_cell_as_it_was_meant(tmp_path: Path, value: object) -> None:
    file = write(tmp_path, cell("x = 1", "parameters"), cell("print(x)"))
    local = read(file, changes=notebooks.as_changes({"x": value}))
    assert given(local) == {"x": value}
    assert local.warnings == ()
    names: dict[str, object] = {}
    exec(document.assignments(given(local)), names)
    assert names["x"] == value


def test_other_keys_are_set_as_those_of_a_job_file(tmp_path: Path) -> None:
    changes = {"hardware.instance_types": ["g5.xlarge"], "limits.hours": 2, "name": "mine"}
    job = read(write(tmp_path, cell("1")), changes=changes).job
    assert (job.name, job.hardware.instance_types, job.limits.hours) == ("mine", ("g5.xlarge",), 2)


def test_a_folder_goes_along_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("x = 1")
    (tmp_path / "notebooks").mkdir()
    file = write(tmp_path / "notebooks", cell("import helpers"))
    local = read(file, changes={notebooks.SOURCE: notebooks.source_of(file, tmp_path)})
    assert local.job.program.command[-1] == "notebooks/Train Digits.ipynb"
    assert {Path(each.path).name for each in local.packages[0].files} == {"helpers.py", "Train Digits.ipynb"}


def test_a_folder_that_it_does_not_lie_in_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    file = write(tmp_path, cell("1"))
    said = refusal(file, **{notebooks.SOURCE: "./other"})
    assert "program.source: ./other is not a folder above Train Digits.ipynb" in said


def test_a_module_beside_it_that_would_not_go_along_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("x = 1")
    (warning,) = read(write(tmp_path, cell("import os\nfrom helpers import x"))).warnings
    assert "imports helpers, which lies beside it and does not go along; --source" in warning


@pytest.mark.parametrize(
    ("sentence", "content", "said"),
    [
        ("not JSON", "{", "is not a notebook, because it is not JSON (line 1, column 2: "),
        ("deep", "[" * 100_000, "is not a notebook, because it is not JSON"),
        ("another document", "[1]", "is not a notebook: nbformat is missing"),
        (
            "an old one",
            '{"nbformat": 3, "worksheets": []}',
            "is a notebook of format 3, but hosts read format 4: jupyter",
        ),
        ("no cells", '{"nbformat": 4}', "has no list of cells"),
        ("odd cells", '{"nbformat": 4, "cells": [1]}', "has no list of cells"),
        ("empty", '{"nbformat": 4, "cells": []}', "has no cell with code"),
        (
            "of another language",
            '{"nbformat": 4, "metadata": {"kernelspec": {"language": "R"}}, "cells": []}',
            "is a notebook for r; hosts run Python",
        ),
    ],
)
def test_what_is_no_notebook_is_refused_before_anything_is_sent(
    tmp_path: Path, sentence: str, content: str, said: str
) -> None:
    file = tmp_path / "t.ipynb"
    file.write_text(content)
    assert said in refusal(file), sentence


def test_every_fault_of_its_cells_is_told_at_once_by_the_numbers_that_jupyter_shows(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        cell("# Title", kind="markdown"),
        cell("lr = .1\nepochs = 1", "parameters"),
        cell(""),
        cell("%matplotlib inline\n!ls\nthis is no Python"),
        cell("await something()"),
        cell("x = 1\nprint x"),
    )
    said = refusal(file, **notebooks.as_changes({"epoch": 3, "class": 1}))
    assert "cell [2] line 3: cannot be compiled: invalid syntax" in said
    assert "cell [4] line 2: cannot be compiled: Missing parentheses" in said
    assert (
        '-p epoch: the cell tagged `parameters` has no such name; did you mean "epochs"?; it has lr, epochs'
        in said
    )
    assert "-p class: is not a name that Python can assign to" in said
    assert "cell [3]" not in said


RUN_BY_JUPYTER = [
    # content of the cell, the cell
    ("a magic", "%matplotlib inline\nx = 1"),
    ("a magic in a block", "for i in range(3):\n    %time f(i)\n    !echo {i}"),
    ("a magic of a cell", "%%bash\nfor f in *; do echo $f; done"),
    ("a magic of a cell below empty lines", "\n\n%%time\nx = 1"),
    ("a shell command with an odd quote", "!echo it's fine (or not"),
    ("a shell command in several lines", "!ls | \\\n  head -3 | \\\n  sort\nx = 1"),
    ("what a shell command prints", "files = !ls"),
    ("what it prints, in parts", "first, *others = !ls *.py"),
    ("what it prints, in a dictionary", "found['files'] = !ls\nself.here = %pwd"),
    ("what a magic returns", "t = %timeit -o sum(range(10))"),
    ("a magic without a percent sign", "pip install einops"),
    ("one without a word behind it", "ls"),
    ("one of an extension", "autoreload 2"),
    ("one with an option", "mkdir -p out/models"),
    ("one that changes the folder", "cd .."),
    ("a question", "print?"),
    ("a question about the source", "np.linalg.norm??"),
    ("a question in front", "?print"),
    ("a question below a comment", "# which one?\nlen?"),
    ("a question in a comment", "# is this it?\nx = 1"),
    ("a question in a text", "text = '''\nwhat is this?\n!ls\n%time\n'''"),
    ("a call whose arguments are quoted", ",f a b"),
    ("a call without parentheses", "/f 1 2"),
    ("a cell that is indented", "    x = 1\n    if x:\n        y = 2"),
    ("lines copied from a session", ">>> x = 1\n>>> if x:\n...     y = 2"),
    ("lines copied from IPython", "In [1]: x = 1"),
    ("a semicolon at the end", "plot(x);"),
    ("waiting in a cell", "import asyncio\nawait asyncio.sleep(0)"),
    ("an odd escape", "pattern = '\\d+'"),
    ("ends of lines in a text that only Unicode knows", "!ls\nx = 'a\u2028b\x0cc\x85d'\r\ny = 1"),
    ("a remainder that begins a line", "x = (7\n  % 3)"),
]
FAILS_IN_JUPYTER = [
    ("Python 2", "print 'x'", 1),
    ("a fault below a magic", "%matplotlib inline\nfor i in range(3) print(i)", 2),
    ("a fault above a shell command", "x = = 1\n!ls", 1),
    ("a magic without a percent sign among others", "import os\npip install einops", 2),
    ("a parenthesis that is never closed", "print(1\nx = 2", 1),
    ("a text that is never closed", "!ls\nx = 'open", 2),
    ("a fault below empty lines", "\n\nx = = 1", 3),
    ("a question about a sum", "x = 1\ny = x + 1?", 2),
]
OF_EXTENSIONS = ("autoreload",)


@pytest.mark.parametrize("source", [row[1] for row in RUN_BY_JUPYTER], ids=[row[0] for row in RUN_BY_JUPYTER])
def test_a_cell_that_jupyter_runs_is_never_refused(tmp_path: Path, source: str) -> None:
    read(write(tmp_path, cell(source), cell("print(1)")))
    assert in_ipython(source) is None


@pytest.mark.parametrize(
    ("source", "line"), [row[1:] for row in FAILS_IN_JUPYTER], ids=[row[0] for row in FAILS_IN_JUPYTER]
)
def test_a_cell_that_jupyter_cannot_read_is_refused_with_its_line(
    tmp_path: Path, source: str, line: int
) -> None:
    assert f"cell [1] line {line}: cannot be compiled" in refusal(write(tmp_path, cell(source)))
    assert in_ipython(source)


@cache
def ipython() -> Any:
    """Return an IPython shell without a history, set up as in a kernel."""
    silent = Config({"HistoryManager": {"enabled": False}})
    return InteractiveShell.instance(config=silent, ipython_dir=mkdtemp(prefix="ipython-"))


def in_ipython(source: str) -> SyntaxError | None:
    """Return the syntax error that IPython itself finds in a cell, if any."""
    shell = ipython()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(shell.transform_cell(source), "cell", "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            return None if source.partition(" ")[0] in OF_EXTENSIONS else error
    return None


@pytest.mark.parametrize(
    "source",
    [
        "lr = .1  # which one?\nepochs = 1",
        "%matplotlib inline\nlr = .1\nepochs = 1",
        "!nvidia-smi\nlr, epochs = .1, 1",
        "# is this it?\nlr: float = .1\nepochs = 1\nhost = !hostname",
    ],
)
def test_a_cell_of_parameters_may_have_magics_and_questions(tmp_path: Path, source: str) -> None:
    file = write(tmp_path, cell(source, "parameters"))
    assert given(read(file, changes=notebooks.as_changes({"lr": 0.5}))) == {"lr": 0.5}
    assert "the cell tagged `parameters` has no such name" in refusal(
        file, **notebooks.as_changes({"rate": 1})
    )


@pytest.mark.parametrize(
    "source",
    ["%run defaults.py", "from defaults import *", "%%capture\nlr = 1", "%load_ext dotenv\n%store -r"],
)
def test_a_cell_of_parameters_that_may_assign_any_name_takes_any(tmp_path: Path, source: str) -> None:
    file = write(tmp_path, cell(source, "parameters"))
    assert given(read(file, changes=notebooks.as_changes({"lr": 0.5}))) == {"lr": 0.5}


@pytest.mark.parametrize(
    ("source", "warned"),
    [
        ("pip install einops", True),
        ("x = 1\n%pip install -q einops", True),
        ("!pip3 install einops", True),
        ("if x:\n    !python -m pip install einops", True),
        ("%conda install einops", True),
        ("# pip install einops\nx = 1", False),
        ("!pip list", False),
    ],
)
def test_a_cell_that_installs_packages_is_warned_of(tmp_path: Path, source: str, warned: bool) -> None:
    said = read(write(tmp_path, cell("1"), cell(source))).warnings
    assert ("cell [2] installs packages" in " ".join(said)) is warned


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python compiles it")
def test_a_cell_for_a_newer_python_is_warned_of_and_not_refused(tmp_path: Path) -> None:
    (warning,) = read(write(tmp_path, cell("%matplotlib inline\ntype Numbers = list[int]"))).warnings
    assert "cell [1] line 2 cannot be compiled by the Python" in warning
    assert "Python 3.12 or newer" in warning


def test_what_cells_with_magics_import_is_known(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("x = 1")
    (warning,) = read(write(tmp_path, cell("%matplotlib inline\nimport helpers"))).warnings
    assert "imports helpers" in warning


def test_a_parameter_may_be_nan_or_infinite() -> None:
    names: dict[str, Any] = {}
    exec(document.assignments({"a": [1, math.nan], "b": {"c": -math.inf}, "d": math.inf}), names)
    assert (math.isnan(names["a"][1]), names["b"], names["d"]) == (True, {"c": -math.inf}, math.inf)


def test_two_cells_of_parameters_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, cell("a = 1", "parameters"), cell("b = 1", "parameters"))
    assert "parameters: two cells have this tag; one is allowed" in refusal(file)


def test_without_a_cell_of_parameters_any_may_be_given(tmp_path: Path) -> None:
    assert given(read(write(tmp_path, cell("print(x)")), changes=notebooks.as_changes({"x": 2}))) == {"x": 2}


def test_a_word_that_stands_alone_is_true() -> None:
    assert parameters(["--deep", "--lr", "0.1", "--name=x y", "--shift", "-1"]) == {
        "deep": True, "lr": 0.1, "name": "x y", "shift": -1,
    }  # fmt: skip
