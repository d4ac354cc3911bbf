"""Plant one defect, and look whether its finder finds it: `python -m tests.simulation.planted.planting NAME`.

The process imports the modules of this clone with one text replaced; no file changes. It ends with 0 if the defect is
found, with 1 if not, and with 2 if the text to be replaced is not in the source exactly once.
"""

import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

from tests.simulation.planted.defects import BY_NAME, Defect, World

ROOT = Path(__file__).resolve().parents[3]


def plant(defect: Defect) -> None:
    """From now on the module is imported with the defect. Bytecode of it is not read."""
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
    """Return True if the world breaks its invariant, or the test fails."""
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

    finding = findings.run_case(assembly.synthesised(), parse(text)).finding
    for violation in finding.violations:
        print(f"{violation.invariant}: {violation.what[:300]}")
    return {violation.invariant for violation in finding.violations}


if __name__ == "__main__":
    wanted = BY_NAME[sys.argv[1]]
    plant(wanted)
    sys.exit(0 if is_found(wanted) else 1)
