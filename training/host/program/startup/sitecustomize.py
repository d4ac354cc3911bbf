"""What a program's Python does before the program: import TensorFlow without looking for garbage meanwhile, which takes
a fifth of that time; let the chief of parameter servers save on its own disk; and note, when it ends, whether an
exception ended it, which its output does not show with certainty.

TensorFlow writes each variable where it lies: on the disk of a parameter server, which nobody reads, so that
`CheckpointManager`, `BackupAndRestore` and `ModelCheckpoint` fail as every tutorial has them. TensorFlow's own word for
another place is `experimental_io_device`; here it has the default that such a program would have to name itself.

Python imports this module by its name from PYTHONPATH. What the machine has under the same name is run, too.
"""

import atexit
import functools
import gc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

OPTIONS = {
    "tensorflow.python.checkpoint.checkpoint_options": "CheckpointOptions",
    "tensorflow.python.saved_model.save_options": "SaveOptions",
    "tensorflow.python.saved_model.load_options": "LoadOptions",
}
"""By module the class whose `experimental_io_device` has another default."""


class Finder:
    """Has a say in how the modules of CHANGED are imported; imports nothing by itself."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        changed = CHANGED.get(name)
        spec = PathFinder.find_spec(name, path, target) if changed else None
        loader = spec.loader if spec else None
        if changed and isinstance(loader, importlib.machinery.SourceFileLoader):
            loader.exec_module = functools.partial(changed, loader.exec_module)  # type: ignore[method-assign]
            return spec
        return None


def without_collector(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Next to nothing of what that import makes is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        execute(module)
    finally:
        if was_on:
            gc.enable()


def on_the_chiefs_disk(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Changes a class of OPTIONS once its module is imported."""
    execute(module)
    options = getattr(module, OPTIONS[module.__name__])
    options.__init__ = with_own_device(options.__init__)


def with_own_device(begin: Callable[..., None]) -> Callable[..., None]:
    """The same `__init__`, where nobody names a device with that of this process."""

    @functools.wraps(begin)
    def begin_with_device(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if self.experimental_io_device is None:
            self.experimental_io_device = own_device()

    return begin_with_device


def own_device() -> str | None:
    """This process as the cluster calls it that it has connected to; None before that."""
    from tensorflow.python.eager import context

    server = context.get_server_def()
    return server and f"/job:{server.job_name}/replica:0/task:{server.task_index}/device:CPU:0"


def run_the_machines_own() -> None:
    """The next module of this name on the path, which this one hides."""
    here = Path(__file__).parent
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if Path(path or ".") != here])
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def note_exit(file: Path) -> None:
    """Append how this process ends: the exception that nothing caught, as Python prints it, or none. Python keeps it in
    `sys` before it prints it, whatever hook the program has for that; a SystemExit is none."""
    import json

    uncaught = getattr(sys, "last_value", None)
    shown = in_a_line(uncaught) if uncaught else None
    noted = {"pid": os.getpid(), "parent": os.getppid(), "exception": shown and shown[-MOST_NOTED:]}
    try:
        if not file.exists() or file.stat().st_size < MOST_EXITS_BYTES:
            with file.open("a") as exits:
                exits.write(f"{json.dumps(noted)}\n")
    except OSError:  # a full disk, or a program that has removed the folder: then the output is all there is
        return


def in_a_line(error: BaseException) -> str:
    """Return the exception as Python prints it without its traceback; of a group, with all that it holds."""
    import traceback

    shown = "".join(traceback.format_exception_only(type(error), error)).strip()
    inside = [in_a_line(each) for each in getattr(error, "exceptions", ()) if isinstance(each, BaseException)]
    return f"{shown}: {'; '.join(inside)}" if inside else shown


MOST_NOTED = 4000
MOST_EXITS_BYTES = 1024**2
"""A program may start any number of Python processes, and each appends a line."""
if "TRAINYARD_PROGRESS" in os.environ:
    atexit.register(note_exit, Path(os.environ["TRAINYARD_PROGRESS"]).with_name("exits.jsonl"))
CHANGED = {"tensorflow": without_collector}
"""By module how it is imported."""
if os.environ.get("TRAINYARD_STRATEGY") == "parameter_server":
    CHANGED |= dict.fromkeys(OPTIONS, on_the_chiefs_disk)
sys.meta_path.insert(0, Finder)
run_the_machines_own()
