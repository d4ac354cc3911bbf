"""The same trial is the same world, byte for byte: twice in a process, and in another with another order of sets."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORLDS = (
    "train@57: host host-1 after progress #2: hangs + event HostSignal ready host-1 #1: lost",
    "launch@2",
)
ROOT = Path(__file__).parents[2]
TWICE = """
import sys
from pathlib import Path
from simulation.trials import campaign, trial
for text in sys.argv[2:] * 2:
    print(campaign.digest(campaign.tried(Path(sys.argv[1]), trial.parse(text)).story.trace))
"""


@pytest.mark.timeout(300)
def test_the_same_trial_has_the_same_trace(folder: Path) -> None:
    digests = [_digests(folder, hash_seed) for hash_seed in ("1", "2")]
    assert len(digests[0]) == 2 * len(WORLDS)
    assert digests[0][:2] == digests[0][2:]
    assert digests[0] == digests[1]


def _digests(folder: Path, hash_seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", TWICE, str(folder), *WORLDS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()
