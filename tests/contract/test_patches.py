"""The patched names of libraries. An upgrade that changes one fails here with its name."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.patches import HYPERCORN, MINISTACK, MOTO
from localcloud.patches.table import Patches

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(ROOT.joinpath("localcloud").rglob("*.py"))
TABLES = [HYPERCORN, MINISTACK, MOTO]
LIBRARIES = [table.library for table in TABLES]
EACH = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.library)


def asked_of_the_libraries(program: str, state: Path, *arguments: str) -> list[str]:
    """Return the output of a program in a separate process without patches."""
    environment = {"PATH": os.environ["PATH"], "STATE_DIR": str(state), "AWS_DEFAULT_REGION": "us-east-1"}
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.splitlines()


@EACH
def test_every_patched_name_is_there_in_the_shape_that_the_table_says(table: Patches, tmp_path: Path) -> None:
    program = "import sys, localcloud.patches as p; print(*getattr(p, sys.argv[1]).differences(), sep='\\n', end='')"
    assert asked_of_the_libraries(program, tmp_path, table.library.upper()) == []


@EACH
def test_a_difference_is_told_in_one_line_with_the_name(
    table: Patches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, patch = next(iter(table.patches.items()))
    monkeypatch.setattr(table, "stock", lambda name: None)
    [line] = [line for line in table.differences() if name in line]
    assert patch.shape in line
    assert patch.ours in line


@EACH
def test_what_stands_there_is_ours(table: Patches) -> None:
    for ours in {name for patch in table.patches.values() for name in patch.ours.split(", ")}:
        module, _, function = ours.rpartition(".")
        path = ROOT / "localcloud" / module.replace(".", "/")
        source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        defined = [
            n.name
            for n in ast.walk(ast.parse(source.read_text()))
            if isinstance(n, ast.FunctionDef | ast.ClassDef)
        ]
        assert function in defined, ours


def test_a_name_that_is_in_no_table_cannot_be_patched() -> None:
    with pytest.raises(KeyError, match="nowhere is not in the table of moto's"):
        MOTO.replace("ec2.utils:nowhere", None)


def imported_from_libraries(tree: ast.AST) -> dict[str, str]:
    """Return local names with the modules that they come from."""
    return {
        alias.asname or alias.name: f"{node.module}:{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in LIBRARIES
        for alias in node.names
    }


def attributes_of_libraries(path: Path) -> Iterator[tuple[ast.Attribute, str]]:
    """Yield every `name.attribute` of a library's name, with its module."""
    tree = ast.parse(path.read_text())
    imported = imported_from_libraries(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield node, imported[node.value.id]


def test_no_name_of_a_library_is_assigned_beside_the_tables() -> None:
    assigned = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in SOURCES
        for node, _ in attributes_of_libraries(path)
        if isinstance(node.ctx, ast.Store)
    ]
    assert assigned == []


def test_every_private_name_that_is_read_is_there(tmp_path: Path) -> None:
    read = {
        f"{place}:{node.attr}"
        for path in SOURCES
        for node, place in attributes_of_libraries(path)
        if node.attr.startswith("_")
    }
    assert len(read) > 10
    program = """
import importlib, json, sys
for place in json.loads(sys.argv[1]):
    module, name, attribute = place.split(":")
    try:
        owner = importlib.import_module(f"{module}.{name}")
    except ImportError:
        owner = getattr(importlib.import_module(module), name)
    if not hasattr(owner, attribute):
        print(place)
"""
    assert asked_of_the_libraries(program, tmp_path, json.dumps(sorted(read))) == []
