"""Programs that split one model over several hosts. Their number of hosts is fixed, and DTensor's own checkpoints lack
the parts of other hosts."""

import ast
from collections.abc import Iterable, Iterator

from trainyard.core.jobfile.program_code import Module
from trainyard.core.model.job import Job

RUNTIME_MESH = "trainyard.runtime.mesh"
DTENSOR = "tensorflow.experimental.dtensor."
SPLITS = (
    RUNTIME_MESH,
    "trainyard.runtime.serve",
    f"{DTENSOR}create_distributed_mesh",
    "tensorflow.config.experimental_connect_to_cluster",
)
CHECKPOINTS = ("tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager")


def warnings(job: Job, nodes: Iterable[tuple[Module, ast.AST]]) -> Iterator[str]:
    """Yield a sentence for each of the two faults."""
    calls = [
        (module.dotted_name(node.func) or "", f"{module.path} line {node.lineno}")
        for module, node in nodes
        if isinstance(node, ast.Call)
    ]
    split = next((call for call in calls if call[0] in SPLITS), None)
    if split and job.cluster.is_elastic:
        name, where = split
        yield (
            f"{where} splits one model over the hosts ({name.rpartition('.')[2]}), which needs a fixed number of them, "
            "but cluster.workers has min and max: give one number"
        )
    saved = next((call for call in calls if call[0] in CHECKPOINTS), None)
    names = {name for name, _ in calls}
    if (
        saved
        and job.gang > 1
        and RUNTIME_MESH not in names
        and any(name.startswith(DTENSOR) for name in names)
    ):
        name, where = saved
        yield (
            f"{where} calls tf.train.{name.rpartition('.')[2]} in a DTensor program: each host writes only its own "
            "parts of the variables to its own disk, so a restart cannot restore them; use trainyard.runtime.mesh, "
            "whose checkpoints have all parts, or relayout each variable to Layout.replicated first"
        )
