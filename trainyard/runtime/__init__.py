"""What training programs use: cluster, reproducible data, training loops, checkpoints, metrics, export.

All of it also runs without Trainyard: on a laptop there is one process, and results lie in ./training-output.
docs/programs.md is the guide.
"""

from trainyard.runtime.session import Runtime, start

__all__ = ["Runtime", "start"]
