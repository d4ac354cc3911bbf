"""Programs that cannot continue after an interruption: they save their work and never load it, or only with a flag.

Only certain cases become warnings: a program that loads anything may be able to continue.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from trainyard.core.jobfile.program_code import Module
from trainyard.core.model.instance_types import MarketChoice
from trainyard.core.model.job import Job
from trainyard.values.lazy import dataclass

LOADS = re.compile(
    r"""(?i)restore|resum|backup|latest_checkpoint|last_checkpoint|from_checkpoint|ckpt_path|initial_epoch
    |^load_(model|weights|state|checkpoint|ckpt|params|variables|pickle|npz|training)|^(read|unpickle|deserialize)""",
    re.VERBOSE,
)
"""Names of functions that read a program's own work. `load_data` and `DataLoader` read data."""
LOADERS = frozenset({"torch", "numpy", "pickle", "joblib", "dill", "json", "cloudpickle", "safetensors"})
"""Modules whose `load` reads any file."""
KERAS = ("keras.", "tf_keras.", "tensorflow.keras.", "tensorflow.compat.v2.keras.")
LIGHTNING = ("lightning.", "pytorch_lightning.")
TRAINERS = frozenset(
    {"transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer", "trl.DPOTrainer"}
)
FLAG = re.compile(
    r"--?(resume|resume[-_]from|resume[-_]from[-_]checkpoint|resume[-_]path|ckpt[-_]path|load[-_]checkpoint)"
)
FILE = re.compile(r"[\w./-]+\.(pt|pth|tar|ckpt|h5|keras|pkl|npz)")


@dataclass(frozen=True)
class Call:
    """A call in a program. Its name is dotted as far as imports show it; otherwise it is the last part."""

    path: str
    node: ast.Call
    name: str

    @property
    def where(self) -> str:
        return f"{self.path} line {self.node.lineno}"

    def keyword(self, name: str) -> ast.expr | None:
        return next((each.value for each in self.node.keywords if each.arg == name), None)

    def is_of(self, prefixes: tuple[str, ...], name: str) -> bool:
        """Return True for a call of this name below one of the prefixes."""
        return self.name.startswith(prefixes) and self.name.rpartition(".")[2] == name


def warnings(job: Job, modules: Iterable[Module]) -> tuple[str, ...]:
    """Return at most one sentence for a job that may be interrupted: the consequence, and the line that helps."""
    if not job.limits.restarts or job.hardware.market is MarketChoice.ON_DEMAND:
        return ()
    read = [*modules]
    calls = [*_calls(read)]
    if flagged := _warn_without_flag(job, read, calls):
        return (flagged,)
    if last := _last_of_lightning(calls):
        return (last,)
    if late := _restored_late(read, calls):
        return (late,)
    if _loads(read):
        return ()
    return tuple(_saved_and_never_loaded(calls))[:1]


def _calls(modules: Iterable[Module]) -> Iterator[Call]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call):
                name = module.dotted_name(node.func) or (
                    node.func.attr if isinstance(node.func, ast.Attribute) else ""
                )
                yield Call(module.path, node, name)


def _loads(modules: Iterable[Module]) -> bool:
    """Return True if a name in the program may belong to a function that reads saved work. trainyard.runtime does."""
    for module in modules:
        if any(target.startswith("trainyard.") for target in module.imports.values()):
            return True
        for node in ast.walk(module.tree):
            match node:
                case (
                    ast.Name(id=name) | ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.alias(name=name)
                ):
                    found = name
                case ast.keyword(arg=str() as name):
                    found = name
                case ast.Attribute(attr="load", value=ast.Name(id=base)):
                    found = "restore" if module.imports.get(base, base).partition(".")[0] in LOADERS else ""
                case ast.Attribute(attr=name):
                    found = name
                case _:
                    continue
            if LOADS.search(found.rpartition(".")[2]):
                return True
    return False


def _saved_and_never_loaded(calls: list[Call]) -> Iterator[str]:
    for call in calls:
        if call.is_of(KERAS, "ModelCheckpoint"):
            yield _again(
                f"{call.where} saves checkpoints that nothing loads",
                'callbacks=[keras.callbacks.BackupAndRestore("backup"), ...] in fit',
            )
        elif call.is_of(LIGHTNING, "Trainer"):
            yield _again(
                f"{call.where} trains from the beginning each time",
                'trainer.fit(model, ..., ckpt_path="last") with ModelCheckpoint(dirpath="checkpoints", save_last=True)',
            )
        elif call.name in TRAINERS:
            folder = _text(call, "output_dir", calls) or "OUTPUT_DIR"
            yield _again(
                f"{call.where} makes a Trainer whose checkpoints nothing loads",
                f'trainer.train(resume_from_checkpoint=any(pathlib.Path("{folder}").glob("checkpoint-*")))',
            )
        elif call.name == "torch.save":
            file = _file(call) or "FILE"
            yield _again(
                f"{call.where} saves what nothing loads",
                f'if os.path.exists("{file}"): model.load_state_dict(torch.load("{file}")) before the loop, with the '
                "optimizer and the step in that file",
            )
        elif call.name in ("tensorflow.train.CheckpointManager", "tensorflow.train.Checkpoint"):
            yield _again(
                f"{call.where} saves checkpoints that nothing restores",
                "checkpoint.restore(manager.latest_checkpoint) before the loop",
            )


def _last_of_lightning(calls: list[Call]) -> str | None:
    """Return the warning for Lightning's `last`, which it does not find in the folder of a new version if a logger
    numbers the folders."""
    asks = next((each for each in calls if _is_last(each.keyword("ckpt_path"))), None)
    trains = any(each.is_of(LIGHTNING, "Trainer") for each in calls)
    savers = [each for each in calls if each.is_of(LIGHTNING, "ModelCheckpoint")]
    if asks is None or not trains or any(_keeps_last(each) for each in savers):
        return None
    return _again(
        f'{asks.where} asks for ckpt_path="last", which is searched in the folder of a new version each time and is '
        "written only with save_last",
        'ModelCheckpoint(dirpath="checkpoints", save_last=True) among the callbacks',
    )


def _restored_late(modules: Iterable[Module], calls: list[Call]) -> str | None:
    """Return the warning for a checkpoint that is restored only after the training, as in TensorFlow's tutorial of a
    DCGAN."""
    if not any(each.name == "tensorflow.train.Checkpoint" for each in calls):
        return None
    for module in modules:
        body = module.tree.body
        savers = {each.name for each in body if isinstance(each, ast.FunctionDef) and _has_call(each, "save")}
        restores = [at for at, each in enumerate(body) if _has_call(each, "restore")]
        trains = [at for at, each in enumerate(body) if _trains(each, savers)]
        if restores and trains and min(restores) > max(trains):
            return _again(
                f"{module.path} line {body[restores[0]].lineno} restores its checkpoint after the training",
                "move that line before the training",
            )
    return None


def _trains(statement: ast.stmt, savers: set[str]) -> bool:
    """Return True for a loop that saves, and for a call of a function that saves."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return False
    return _has_call(statement, "save") or any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in savers
        for node in ast.walk(statement)
    )


def _has_call(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == name
        for node in ast.walk(statement)
    )


def _is_last(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value == "last"


def _keeps_last(call: Call) -> bool:
    has_folder = call.keyword("dirpath") is not None or bool(call.node.args)
    unpacks = any(each.arg is None for each in call.node.keywords)
    return unpacks or (has_folder and call.keyword("save_last") is not None)


def _warn_without_flag(job: Job, modules: list[Module], calls: list[Call]) -> str | None:
    """Return the warning for a program that continues only with a flag that the job does not set."""
    for call in calls:
        flag = next((each for each in map(_constant, call.node.args) if each and FLAG.fullmatch(each)), None)
        if call.name.endswith("add_argument") and flag and _is_off(call.keyword("default")):
            key = flag.lstrip("-").replace("-", "_")
            if _has_flag(job, flag, key):
                return None
            switch = _constant(call.keyword("action")) == "store_true"
            files = {file for each in calls if each.name == "torch.save" and (file := _file(each))}
            files |= {file for module in modules for file in _defaults(module)}
            value = "true" if switch else min(files) if len(files) == 1 else "FILE"
            return _again(
                f"{call.where} has {flag}, and the job does not ask for it",
                f"{key}: {value} below program.args",
            )
    return None


def _is_off(default: ast.expr | None) -> bool:
    return default is None or (isinstance(default, ast.Constant) and not default.value)


def _has_flag(job: Job, flag: str, key: str) -> bool:
    args = job.program.args
    named = [str(each).replace("-", "_") for each in args] if isinstance(args, Mapping) else map(str, args)
    words = [*named, *map(str, job.program.command), job.program.shell or ""]
    return any(word == key or word.partition("=")[0] == flag or flag in word.split() for word in words)


def _defaults(module: Module) -> Iterator[str]:
    """Yield the file names that functions called like `save_checkpoint` write by default."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and "save" in node.name:
            yield from (
                text for each in node.args.defaults if (text := _constant(each)) and FILE.fullmatch(text)
            )


def _file(call: Call) -> str | None:
    return next(
        (text for each in call.node.args[1:2] if (text := _constant(each)) and FILE.fullmatch(text)), None
    )


def _text(call: Call, name: str, calls: list[Call]) -> str | None:
    """Return the first text that any call has under this keyword."""
    return next((text for each in [call, *calls] if (text := _constant(each.keyword(name)))), None)


def _constant(value: ast.expr | None) -> str | None:
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _again(what: str, line: str) -> str:
    return (
        f"{what}, so after an interruption the run starts again at step 0, at full price; to continue: {line}"
    )
