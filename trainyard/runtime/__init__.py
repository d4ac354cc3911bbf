"""What training programs use: cluster, reproducible data, training loops, checkpoints, metrics, export.

All of it also runs without Trainyard: on a laptop there is one process, and results lie in ./training-output.
docs/programs.md is the guide.
"""

try:
    from trainyard.runtime.session import Runtime, start
except ModuleNotFoundError as error:
    if error.name not in ("tensorflow", "keras", "numpy"):
        raise
    raise ModuleNotFoundError(
        "trainyard.runtime needs TensorFlow, which hosts have and this Python has not: pip install "
        "'trainyard[tensorflow]' (in a clone of the repository: pip install '.[tensorflow]')",
        name=error.name,
    ) from error

__all__ = ["Runtime", "start"]
