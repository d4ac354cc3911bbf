"""What a program does with TensorFlow that TensorFlow 2.21 no longer has or cannot do, as far as that is certain."""

import ast
from collections.abc import Iterable, Iterator

from lambdas.core.jobfile import source_code, tensorflow_names
from lambdas.core.jobfile.source_code import Module, Reached
from lambdas.core.model.job import Job

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


def problems(job: Job, code: Reached) -> Iterator[str]:
    """What the code that runs cannot do with the image's TensorFlow, a sentence each."""
    yield from _name_problems(job, code)
    if job.gang > 1:
        yield from _fit_problems(job, code)


def _name_problems(job: Job, code: Reached) -> Iterator[str]:
    """Per file and advice one sentence, with the first names and where they stand."""
    patched = set(_patched(code.modules))
    if "*" in patched:
        return
    keras_2 = _has_keras_2(job, code)
    seen: dict[tuple[str, str], dict[str, int]] = {}
    for module, node in code.nodes:
        for name in _names(module, node):
            lost = tensorflow_names.lost(name, keras_2=keras_2, several_hosts=job.gang > 1)
            if lost and not any(f"{name}.".startswith(f"{each}.") for each in patched):
                names = seen.setdefault((module.path, lost.advice), {})
                names.setdefault(lost.name, getattr(node, "lineno", 0))
    for (path, advice), names in seen.items():
        shown = [f"{name} (line {line})" for name, line in list(names.items())[:MOST_NAMES_SHOWN]]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        yield f"{path} uses {', '.join(shown)}{more}: {advice}"


def _names(module: Module, node: ast.AST) -> Iterator[str]:
    """What the node names below `tensorflow`, dotted from there."""
    dotted = module.dotted(node) if isinstance(node, ast.Attribute) else None
    for name in (dotted, *source_code.imported(node, module.package)):
        if name and name.startswith("tensorflow."):
            yield name.removeprefix("tensorflow.")


def _patched(modules: Iterable[Module]) -> Iterator[str]:
    """Names that the program itself puts into TensorFlow; `*` when it may put any."""
    for module in modules:
        for node in ast.walk(module.tree):
            match node:
                case ast.Attribute(ctx=ast.Store()):
                    dotted = module.dotted(node) or ""
                    if dotted.startswith("tensorflow."):
                        yield dotted.removeprefix("tensorflow.")
                case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                    yield "*"
                case ast.Call(func=ast.Name(id="setattr"), args=[target, *_]):
                    if (module.dotted(target) or "").startswith("tensorflow"):
                        yield "*"


def _has_keras_2(job: Job, code: Reached) -> bool:
    """Whether tf.keras may be Keras 2: by the job's environment, or because the program mentions it."""
    told = job.program.environment.get(LEGACY_KERAS, "").lower() in ("1", "true")
    return told or any(LEGACY_KERAS.encode() in module.text for module in code.modules)


def _fit_problems(job: Job, code: Reached) -> Iterator[str]:
    """Keras 3's `fit` under a strategy of several hosts, where both are certain."""
    imports = {name for module in code.modules for name in _imports(module)}
    names = {name for module, node in code.nodes for name in [module.dotted(node)] if name} | imports
    uses_keras_3 = any(f"{name}.".startswith(("tensorflow.keras.", "keras.")) for name in names)
    uses_keras_2 = any(name.partition(".")[0] == "tf_keras" for name in imports) or _has_keras_2(job, code)
    if uses_keras_2 or not uses_keras_3:
        return
    calls = [(module, node) for module, node in code.nodes if isinstance(node, ast.Call)]
    strategies = [
        (f"{module.path} line {node.lineno}", name)
        for module, node in calls
        if (name := _strategy(module, node))
    ]
    fits = [f"{module.path} line {node.lineno}" for module, node in calls if _is_fit(module, node, calls)]
    if strategies and fits:
        made_at, strategy = strategies[0]
        yield (
            f"{fits[0]} calls Keras 3's fit under {strategy} ({made_at}), which fails across hosts; import tf_keras "
            f'instead of tf.keras or keras, or (with tf.keras) put {LEGACY_KERAS}: "1" into program.environment, or '
            "write the loop yourself"
        )


def _imports(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        yield from source_code.imported(node, module.package)


def _strategy(module: Module, call: ast.Call) -> str | None:
    """The strategy of several hosts that the call makes."""
    dotted = module.dotted(call.func) or ""
    if dotted == RUNTIME_START:
        return "the strategy of trainyard.runtime"
    name = dotted.rpartition(".")[2]
    return name if name in MULTI_HOST_STRATEGIES and dotted.startswith("tensorflow.") else None


def _is_fit(module: Module, call: ast.Call, calls: Iterable[tuple[Module, ast.Call]]) -> bool:
    """Whether this is Keras's `fit`: by its own arguments, or on what the same file compiles with a loss."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "fit"):
        return False
    if any(keyword.arg in FIT_ARGUMENTS for keyword in call.keywords):
        return True
    model = ast.dump(call.func.value)
    return any(
        other is module
        and isinstance(each.func, ast.Attribute)
        and each.func.attr == "compile"
        and ast.dump(each.func.value) == model
        and any(keyword.arg in ("loss", "optimizer") for keyword in each.keywords)
        for other, each in calls
    )
