"""`pip install -r requirements.txt` is enough for `cdk deploy`."""

import ast
import json
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def test_what_the_app_imports_is_in_requirements_txt() -> None:
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    listed = {canonicalize_name(Requirement(line).name) for line in lines if line}
    offered = packages_distributions()
    needed = {
        name: {canonicalize_name(each) for each in offered[name]} for name in imported(ROOT / "app.py", set())
    }
    assert {name for name, packages in needed.items() if not packages & listed} == set()
    assert {"aws_cdk", "constructs", "yaml"} <= needed.keys()


def test_the_app_is_started_by_whatever_python_is_there() -> None:
    """Not by one of a folder that `make` has made."""
    assert json.loads((ROOT / "cdk.json").read_text())["app"] == "python3 app.py"


def imported(file: Path, seen: set[Path]) -> set[str]:
    """The top-level names that are neither ours nor Python's, of this file and of all of ours that it imports."""
    seen.add(file)
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                modules = [each.name for each in names]
            case ast.ImportFrom(module=str(module), names=names):
                modules = [module, *(f"{module}.{each.name}" for each in names)]
            case _:
                continue
        for module in modules:
            top = module.partition(".")[0]
            if (ROOT / top).is_dir():
                path = ROOT.joinpath(*module.split("."))
                for each in (path.with_suffix(".py"), path / "__init__.py"):
                    found |= imported(each, seen) if each.exists() and each not in seen else set()
            elif top not in sys.stdlib_module_names:
                found.add(top)
    return found
