"""Probable failures of a program: names that TensorFlow no longer has, a Keras `fit` that cannot span hosts, files that
cannot be compiled. They are warnings, because the check may be wrong."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Self

from trainyard.core.jobfile import model_parallel, resuming, tensorflow_names
from trainyard.core.jobfile.program_archive import Archive
from trainyard.core.jobfile.program_code import Module, in_no_branch, list_imports, reach
from trainyard.core.model.job import Job

MOST_NAMES_SHOWN = 4
MULTI_HOST_STRATEGIES = (
    "MultiWorkerMirroredStrategy",
    "ParameterServerStrategy",
    "ParameterServerStrategyV2",
)
RUNTIME_START = "trainyard.runtime.start"
LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
FIT_ARGUMENTS = frozenset(
    {"epochs", "steps_per_epoch", "initial_epoch", "validation_data", "validation_steps", "validation_split"}
)
"""Arguments that only Keras's `fit` has."""
PATCHES = re.compile(rb"\bsetattr\(|\bsys\.modules\b")
"""Code that can add any name to TensorFlow."""

ADDRESS = re.compile(r"(?:grpc://)?[A-Za-z0-9][\w.-]*:\d{1,5}")
"""`host:port`, as in a ClusterSpec."""
OTHER_ADDRESSES = (
    "the hosts of a run have others, so its servers would wait for each other until they are ended as hung: take the "
    "addresses from TF_CONFIG (tf.distribute.cluster_resolver.TFConfigClusterResolver().cluster_spec()), or from "
    'arguments ("${ps_hosts}", "${worker_hosts}" in program.args)'
)

Node = tuple[Module, ast.AST]


class KnownFailure(str):
    """A warning of a failure that is certain. The command asks for --force before it pays for such a run."""

    change: str
    """The change of the job file that prevents the failure, in the format of `--set`; empty if the program has to
    change."""

    def __new__(cls, sentence: str, change: str = "") -> Self:
        made = super().__new__(cls, sentence)
        made.change = change
        return made


def warnings(job: Job, archive: Archive) -> tuple[str, ...]:
    """Return the warnings, a sentence each."""
    modules, broken = reach(archive.sources, archive.entry(job.program), in_no_branch)
    found = [str(file) for file in broken]
    if archive.is_there("trainyard"):
        found.append(
            "it contains a package trainyard, which hides the package of the hosts: from trainyard.runtime"
        )
    if not _brings_tensorflow(job, archive):
        nodes = [(module, node) for module in modules for node in in_no_branch(module)]
        keras_2 = _has_keras_2(job, modules)
        found += _lost_names(job, modules, nodes, keras_2=keras_2)
        if job.gang > 1 and not keras_2:
            found += _fit_across_hosts(nodes)
        if job.gang > 1:
            found += _addresses_of_others(nodes)
        found += model_parallel.warnings(job, nodes)
    return (*found, *resuming.warnings(job, modules))


def _brings_tensorflow(job: Job, archive: Archive) -> bool:
    """Return True if the program may run with another TensorFlow or Keras than the image's."""
    listed = archive.texts.get(job.program.requirements or "", b"").decode("utf-8", "replace")
    lines = [line.partition("#")[0].strip().lower() for line in listed.splitlines()]
    brought = any(re.match(r"-|.*(tf|tensorflow|keras|://|@)", line) for line in lines if line)
    own = any(archive.is_there(name) for name in ("tensorflow", "keras"))
    unseen = job.program.container is not None or (bool(job.program.requirements) and not listed)
    return brought or own or unseen


def _lost_names(
    job: Job, modules: Iterable[Module], nodes: Iterable[Node], *, keras_2: bool
) -> Iterator[str]:
    """Yield one sentence for each file and advice, with the first names and their lines."""
    if any(PATCHES.search(module.text) for module in modules):
        return
    seen: dict[tuple[str, str], dict[str, int]] = {}
    put_there = set()
    for module, node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            put_there.add(module.dotted_name(node))
        for name in _tensorflow_names(module, node):
            lost = tensorflow_names.find_missing(name, keras_2=keras_2, several_hosts=job.gang > 1)
            if lost and f"tensorflow.{lost.name.removeprefix('tf.')}" not in put_there:
                names = seen.setdefault((module.path, lost.advice), {})
                names.setdefault(lost.name, getattr(node, "lineno", 0))
    for (path, advice), names in seen.items():
        shown = [f"{name} (line {line})" for name, line in list(names.items())[:MOST_NAMES_SHOWN]]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield f"{path} uses {', '.join(shown)}{more}: {advice}"


def _tensorflow_names(module: Module, node: ast.AST) -> Iterator[str]:
    """Yield the names below `tensorflow` that a node uses."""
    dotted = module.dotted_name(node) if isinstance(node, ast.Attribute) else None
    for name in (dotted, *list_imports(node, module.package)):
        if name and name.startswith("tensorflow."):
            yield name.removeprefix("tensorflow.")


def _has_keras_2(job: Job, modules: Iterable[Module]) -> bool:
    """Return True if Keras may be Keras 2, by the job's environment or because the program mentions it."""
    chosen = job.program.environment.get(LEGACY_KERAS, "").lower() in ("1", "true")
    return chosen or any(LEGACY_KERAS.encode() in module.text for module in modules)


def _fit_across_hosts(nodes: list[Node]) -> Iterator[str]:
    """Yield a warning for Keras 3's `fit` under a strategy of several hosts."""
    names = {
        name
        for module, node in nodes
        for name in (module.dotted_name(node), *list_imports(node, module.package))
    }
    keras_3 = any(f"{name}.".startswith(("tensorflow.keras.", "keras.")) for name in names)
    if not keras_3 or any(f"{name}.".startswith("tf_keras.") for name in names):
        return
    by_own_name = any(f"{name}.".startswith("keras.") for name in names)
    calls = [(module, node) for module, node in nodes if isinstance(node, ast.Call)]
    strategies = [(m.path, call.lineno, name) for m, call in calls if (name := _strategy(m, call))]
    fits = [(m.path, call.lineno) for m, call in calls if _is_fit(m, call, calls)]
    if strategies and fits:
        (fit_path, fit_line), (path, line, strategy) = fits[0], strategies[0]
        yield KnownFailure(
            f"{fit_path} line {fit_line} calls Keras 3's fit under {strategy} ({path} line {line}), which fails across "
            f'hosts; import tf_keras instead of tf.keras or keras, or (with tf.keras) put {LEGACY_KERAS}: "1" into '
            "program.environment, or write the loop yourself",
            change="" if by_own_name else f'program.environment.{LEGACY_KERAS}="1"',
        )


def _addresses_of_others(nodes: list[Node]) -> Iterator[str]:
    """Yield a warning for a ClusterSpec whose addresses are constants of the program. The hosts of a run have other
    addresses."""
    assigned = {
        (module, target.id): node.value
        for module, node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for module, call in nodes:
        if isinstance(call, ast.Call) and _makes_cluster_spec(module, call):
            addresses = dict.fromkeys(_addresses(call, module, assigned, names=2))
            shown = ", ".join(list(addresses)[:MOST_NAMES_SHOWN])
            if addresses:
                yield (
                    f"{module.path} line {call.lineno} makes its ClusterSpec of addresses written into it ({shown}); "
                    f"{OTHER_ADDRESSES}"
                )


def _addresses(
    value: ast.AST, module: Module, assigned: Mapping[tuple[Module, str], ast.expr], *, names: int
) -> Iterator[str]:
    """Yield the addresses in a value, and in the values of up to `names` variables in a chain."""
    for node in ast.walk(value):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from filter(ADDRESS.fullmatch, node.value.split(","))
        elif isinstance(node, ast.Name) and names and (module, node.id) in assigned:
            yield from _addresses(assigned[module, node.id], module, assigned, names=names - 1)


def _makes_cluster_spec(module: Module, call: ast.Call) -> bool:
    dotted = module.dotted_name(call.func) or ""
    return dotted.startswith("tensorflow.") and dotted.endswith(".ClusterSpec")


def _strategy(module: Module, call: ast.Call) -> str | None:
    """Return the strategy of several hosts that a call creates."""
    dotted = module.dotted_name(call.func) or ""
    if dotted == RUNTIME_START:
        return "the strategy of trainyard.runtime"
    name = dotted.rpartition(".")[2]
    return name if name in MULTI_HOST_STRATEGIES and dotted.startswith("tensorflow.") else None


def _is_fit(module: Module, call: ast.Call, calls: Iterable[tuple[Module, ast.Call]]) -> bool:
    """Return True for Keras's `fit`: it has Keras's arguments, or the file compiles the same model."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "fit"):
        return False
    model = ast.dump(call.func.value)
    return any(keyword.arg in FIT_ARGUMENTS for keyword in call.keywords) or any(
        other is module
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "compile"
        and ast.dump(each.func.value) == model
        for other, each in calls
    )
