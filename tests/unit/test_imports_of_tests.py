"""A test imports neither another module of tests nor the demo, and only the test of a bench imports a bench."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS_OF_BENCHES = {"tests/simulation/test_week.py", "tests/simulation/test_long_study.py"}


def imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names if name.name.startswith("test_"))


def is_refused(file: Path, module: str) -> bool:
    if module.startswith("benchmarks"):
        return str(file.relative_to(ROOT)) not in TESTS_OF_BENCHES
    is_of_tests = module.startswith("tests.") and any(
        part.startswith("test_") for part in module.split(".")[1:]
    )
    return is_of_tests or module.startswith("scripts.demo")


def test_no_test_imports_another_a_bench_or_the_demo() -> None:
    files = [*(ROOT / "tests").rglob("*.py")]
    assert len(files) > 100
    assert [
        (str(file.relative_to(ROOT)), module)
        for file in files
        for module in imported(file)
        if is_refused(file, module)
    ] == []
