"""`pip install -r requirements.txt` is enough for `cdk deploy`, and requirements/locks has the hash of each package."""

import ast
import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from trainyard import locks

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
    """cdk.json uses the python3 on PATH, not an environment that `make` created."""
    assert json.loads((ROOT / "cdk.json").read_text())["app"] == "python3 app.py"


LISTS = ["requirements.txt", *sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))]
ENTRY = re.compile(r"^[\w.-]+==[^\n]*((?:\n    --hash=\S+(?: \\)?)*)", re.MULTILINE)


def lock_of(name: str) -> str:
    return (ROOT / "requirements" / "locks" / name).read_text()


def whole(name: str) -> str:
    """Return a list together with the lists that it includes."""
    text = (ROOT / name if name == "requirements.txt" else ROOT / "requirements" / name).read_text()
    named = re.findall(r"^-r (\S+)", text, re.MULTILINE)
    return text + "".join(whole(Path(other).name) for other in named)


def test_every_list_has_its_lock() -> None:
    assert {path.name for path in (ROOT / "requirements" / "locks").iterdir()} == set(LISTS)


@pytest.mark.parametrize("name", LISTS)
def test_a_lock_is_of_its_list_and_has_a_hash_of_every_package(name: str) -> None:
    """`make lock` updates the lock."""
    assert locks.find_changed(whole(name), lock_of(name)) == []
    entries = list(ENTRY.finditer(lock_of(name)))
    assert [entry[0] for entry in entries if "sha256:" not in entry[1]] == []
    kept = re.findall(r"^[\w.-]+.*(?:==| @ )", lock_of(name), re.MULTILINE)
    assert len(kept) == len(entries), "an entry is not pinned"


def test_what_fetches_the_software_is_what_hosts_have() -> None:
    assert locks.pins(lock_of("bootstrap.txt")) <= locks.pins(lock_of("host.txt"))


def is_later(node: ast.AST) -> bool:
    """Return True for code that only type checkers, a module's `__getattr__`, or the function for predictions run."""
    match node:
        case (
            ast.If(test=ast.Name(id="TYPE_CHECKING"))
            | ast.FunctionDef(name="__getattr__" | "start_interpreter")
        ):
            return True
    return False


def imported(file: Path, seen: set[Path]) -> set[str]:
    """Return the third-party packages that a file imports, directly or through other files of the project."""
    seen.add(file)
    found: set[str] = set()
    tree = ast.parse(file.read_text())
    later = {inner for node in ast.walk(tree) if is_later(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node in later:
            continue
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
