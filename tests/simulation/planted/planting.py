"""Plant one defect and check that it is found: `python -m tests.simulation.planted.planting NAME`.

The process imports this clone's modules with one text replaced; no file changes. Exit codes: 0 if the defect is
found, 1 if not, 2 if the text does not occur exactly once in the source.
"""

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

from tests.simulation.planted.defects import BY_NAME, Defect, World

ROOT = Path(__file__).resolve().parents[3]


def plant(defect: Defect) -> None:
    """Import the module with the defect from now on, ignoring its bytecode."""
    target = str(ROOT / defect.file)
    text = Path(target).read_text()
    if text.count(defect.old) != 1:
        sys.exit(2)
    stock = SourceFileLoader.get_data

    def get_data(self: SourceFileLoader, path: str) -> bytes:
        if self.path == target and path.endswith(".pyc"):
            raise OSError(path)
        return text.replace(defect.old, defect.new).encode() if path == target else stock(self, path)

    sys.dont_write_bytecode = True
    SourceFileLoader.get_data = get_data  # type: ignore[method-assign, assignment]


def is_found(defect: Defect) -> bool:
    """Return True if the world breaks its invariant or the test fails."""
    if isinstance(defect.found_by, World):
        return defect.found_by.invariant in _broken(defect.found_by.text)
    import pytest

    return (
        pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", defect.found_by])
        == pytest.ExitCode.TESTS_FAILED
    )


def _broken(text: str) -> set[str]:
    from simulation import assembly
    from simulation.cases import findings
    from simulation.cases.case import parse

    finding = findings.run_case(assembly.find_assembly(), parse(text)).finding
    for violation in finding.violations:
        print(f"{violation.invariant}: {violation.what[:300]}")
    return {violation.invariant for violation in finding.violations}


if __name__ == "__main__":
    wanted = BY_NAME[sys.argv[1]]
    plant(wanted)
    sys.exit(0 if is_found(wanted) else 1)
