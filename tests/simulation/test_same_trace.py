"""Equal cases give equal traces, byte for byte: here, and twice in each of two processes with another order of
sets, time zone and environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from simulation.cases import findings, traces
from simulation.cases.case import parse
from simulation.template import YardTemplate

WORLDS = (
    "train@57: host host-1 after progress #2: hangs + event HostSignal ready host-1 #1: lost",
    "dev-host@2",
)
ROOT = Path(__file__).parents[2]
TWICE = """
import sys
from pathlib import Path
from simulation.cases import campaign, case
from simulation.cases import findings
from simulation.cases import traces
for text in sys.argv[2:] * 2:
    print(traces.digest(findings.run_case(Path(sys.argv[1]), case.parse(text)).result.trace))
"""


@pytest.mark.timeout(300)
def test_equal_cases_have_equal_traces(yard: YardTemplate, folder: Path) -> None:
    here = [_digest(folder, text) for text in WORLDS]
    for hash_seed in ("1", "2"):
        assert _digests_elsewhere(folder, hash_seed) == [*here, *here]


def _digest(folder: Path, text: str) -> str:
    result = findings.run_case(folder, parse(text)).result
    assert result is not None
    return traces.digest(result.trace)


def _digests_elsewhere(folder: Path, hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(folder), *WORLDS],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": hash_seed, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()
