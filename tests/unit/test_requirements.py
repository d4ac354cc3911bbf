"""`pip install -r requirements.txt` is enough for `cdk deploy`; what we install has its hash in locks/."""

import ast
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
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


LISTS = sorted(path.name for path in ROOT.glob("requirements*.txt"))
ENTRY = re.compile(r"^([\w.-]+)==([^\s;]+)[^\n]*((?:\n    --hash=\S+(?: \\)?)*)", re.MULTILINE)


def locked(name: str) -> list[tuple[str, str, int]]:
    """Name, version and number of hashes; a package that is another for another Python stands there twice."""
    text = (ROOT / "locks" / name).read_text()
    return [(canonicalize_name(each[1]), each[2], each[3].count("sha256:")) for each in ENTRY.finditer(text)]


def listed(name: str) -> list[Requirement]:
    lines = [line.partition("#")[0].strip() for line in (ROOT / name).read_text().splitlines()]
    more = [each for line in lines if line.startswith("-r ") for each in listed(line[3:])]
    return [Requirement(line) for line in lines if line and not line.startswith("-")] + more


def test_every_list_has_its_lock() -> None:
    assert sorted(path.name for path in (ROOT / "locks").iterdir()) == LISTS


@pytest.mark.parametrize("name", LISTS)
def test_a_lock_is_of_its_list_and_has_a_hash_of_every_package(name: str) -> None:
    """`make lock` writes it anew."""
    found = locked(name)
    versions = {(package, f"=={version}") for package, version, _ in found}
    assert [
        str(each)
        for each in listed(name)
        if (canonicalize_name(each.name), str(each.specifier)) not in versions
    ] == []
    assert [package for package, _, hashes in found if not hashes] == []
    kept = re.findall(r"^[\w.-]+.*(?:==| @ )", (ROOT / "locks" / name).read_text(), re.MULTILINE)
    assert len(kept) == len(found), "something there is no pin"


def test_what_fetches_the_software_is_what_hosts_have() -> None:
    assert set(locked("requirements-bootstrap.txt")) <= set(locked("requirements-host.txt"))


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
