"""The library for training programs: cluster, reproducible data, training loops, checkpoints, metrics, export.

It also works without Trainyard: a laptop runs one process, which writes its results to ./training-output.
docs/programs.md is the guide.
"""

try:
    from trainyard.runtime.model_parallel import mesh, serve
    from trainyard.runtime.session import Runtime, start
except ModuleNotFoundError as error:
    if error.name not in ("tensorflow", "keras", "numpy"):
        raise
    raise ModuleNotFoundError(
        "trainyard.runtime needs TensorFlow, which hosts have but this Python lacks: pip install "
        "'trainyard[tensorflow]' (in a clone of the repository: pip install '.[tensorflow]')",
        name=error.name,
    ) from error

__all__ = ["Runtime", "mesh", "serve", "start"]
