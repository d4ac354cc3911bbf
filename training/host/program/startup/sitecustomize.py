"""Code that a program's Python runs before the program.

- Import TensorFlow without garbage collection, which would take a fifth of that time.
- Let the chief of parameter servers save on its own disk. By default, TensorFlow writes a variable on the disk of its
  parameter server, which no process reads. `CheckpointManager`, `BackupAndRestore`, and `ModelCheckpoint` would fail,
  used as in every tutorial. The option `experimental_io_device` names another device. It gets the default that such a
  program would have to set itself.
- Note every few seconds how long the program has waited for batches of PyTorch's data loaders and of TensorFlow's data
  sets, if Python fetches them. `fit` of Keras fetches them inside of its graph, which shows nothing here.
- Note at the end if an exception ended the process, because its output does not show that with certainty.

Python imports this module by its name from PYTHONPATH. A module of that name on the machine is run, too.
"""

import atexit
import functools
import gc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time
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
"""Classes whose `experimental_io_device` gets another default, by module."""

ITERATORS = {
    "tensorflow.python.data.ops.iterator_ops": "OwnedIterator",
    "tensorflow.python.distribute.input_lib": "DistributedIteratorBase",
    "torch.utils.data.dataloader": "_BaseDataLoaderIter",
}
"""Iterators of batches whose `__next__` is measured, by module."""
NOTE_SECONDS = 5.0


class Finder:
    """An import hook that changes how the modules of CHANGED are imported."""

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
    """Import a module without garbage collection: the import creates hardly any garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        execute(module)
    finally:
        if was_on:
            gc.enable()


def on_the_chiefs_disk(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Import a module, then change its class of OPTIONS."""
    execute(module)
    options = getattr(module, OPTIONS[module.__name__])
    options.__init__ = with_own_device(options.__init__)


def with_own_device(begin: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` that uses the device of this process if the caller names none."""

    @functools.wraps(begin)
    def begin_with_device(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if self.experimental_io_device is None:
            self.experimental_io_device = own_device()

    return begin_with_device


def own_device() -> str | None:
    """Return the name of this process in its cluster; None before it has connected."""
    from tensorflow.python.eager import context

    server = context.get_server_def()
    return server and f"/job:{server.job_name}/replica:0/task:{server.task_index}/device:CPU:0"


class InputWaits:
    """The time for which this process has waited for batches, in lines of a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waited = self._noted_at = 0.0
        self._is_inside = False

    def time_batches(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        """Import a module, then measure the iterator of ITERATORS that it defines."""
        execute(module)
        iterator = getattr(module, ITERATORS[module.__name__], None)
        if iterator is not None and hasattr(iterator, "__next__"):
            iterator.__next__ = self._timed(iterator.__next__)

    def _timed(self, next_batch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(next_batch)
        def timed(iterator: Any) -> Any:
            # a thread that fetches ahead does not hold up the program, and one iterator may use another
            if self._is_inside or threading.get_ident() != threading.main_thread().ident:
                return next_batch(iterator)
            self._is_inside, began = True, time.monotonic()
            try:
                return next_batch(iterator)
            finally:
                now = time.monotonic()
                self._is_inside, self._waited = False, self._waited + now - began
                if now - self._noted_at >= NOTE_SECONDS:
                    self._note(now)

        return timed

    def _note(self, now: float) -> None:
        self._noted_at = now
        try:
            with self._file.open("a") as file:
                file.write(f'{{"pid": {os.getpid()}, "at": {now:.3f}, "waited": {self._waited:.3f}}}\n')
        except OSError:  # a full disk, or a removed folder: the agent then knows no wait
            return


def run_the_machines_own() -> None:
    """Run the next module of this name on the path, which this module hides."""
    here = Path(__file__).parent
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if Path(path or ".") != here])
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def note_exit(file: Path) -> None:
    """Append this process's end to the file: its uncaught exception as Python prints it, or null. Python keeps that
    exception in `sys`, whatever hook the program has installed, but not a SystemExit."""
    import json

    uncaught = getattr(sys, "last_value", None)
    shown = in_a_line(uncaught) if uncaught else None
    noted = {"pid": os.getpid(), "parent": os.getppid(), "exception": shown and shown[-MOST_NOTED:]}
    try:
        if not file.exists() or file.stat().st_size < MOST_EXITS_BYTES:
            with file.open("a") as exits:
                exits.write(f"{json.dumps(noted)}\n")
    except OSError:  # a full disk, or a removed folder: the agent then has only the output
        return


def in_a_line(error: BaseException) -> str:
    """Return the exception as Python prints it without its traceback. A group is followed by its exceptions."""
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
"""Functions that import a module in another way, by module."""
if "TRAINYARD_PROGRESS" in os.environ:
    waits = InputWaits(Path(os.environ["TRAINYARD_PROGRESS"]).with_name("waits.jsonl"))
    CHANGED |= dict.fromkeys(ITERATORS, waits.time_batches)
if os.environ.get("TRAINYARD_STRATEGY") == "parameter_server":
    CHANGED |= dict.fromkeys(OPTIONS, on_the_chiefs_disk)
sys.meta_path.insert(0, Finder)
run_the_machines_own()
