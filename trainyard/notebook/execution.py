"""Execute a notebook in a kernel of its own, by nbclient: what its cells print is printed as it comes, and the notebook
is written down after each cell, so that what there is outlives whatever happens.

The kernel is the program, and this process stands for it: SIGTERM is passed on, and the exit code is the kernel's own
where it ends by itself (`sys.exit`, `os._exit`, a signal).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from queue import Empty
from subprocess import Popen
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete, CellExecutionError, DeadKernelError

from trainyard.notebook.document import FORMAT, INJECTED, PARAMETERS, assignments

START_SECONDS = 300
"""How long a kernel may take until it answers, on a disk that is read for the first time."""
LEAVE_SECONDS = 60
"""And how long it may take to leave, once all cells are done."""
LOOK_SECONDS = 0.5
DIRECT = "--IPKernelApp.capture_fd_output=False"
"""What libraries and child processes of the kernel print goes to the log as with any program: sent by the kernel, what
comes with a cell's end is lost, and all else stands there twice."""
WITH_IDS = 5
"""The minor version of the format from which on cells have ids."""
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
"""Colours of a traceback."""
KERNEL = (
    "import os, sys; sys.path[:] = sys.argv.pop(1).split(os.pathsep); "
    "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
)
"""With the path of this process, at the end of which Jupyter may lie."""


def execute(file: Path, result: Path, parameters: Mapping[str, object]) -> int:
    """Execute `file` in the folder that it lies in and keep `result` in step with it; answers the exit code that a
    script with the same lines would have. Raises OSError where it cannot be read or written, nbformat.ValidationError
    where it is no notebook, RuntimeError where no kernel starts."""
    notebook = nbformat.read(file, as_version=FORMAT)  # type: ignore[no-untyped-call]
    with_parameters(notebook, parameters)
    result.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        client = _Client(
            notebook, result=result, sockets=folder, resources={"metadata": {"path": str(file.parent)}}
        )
        return asyncio.run(client.ended())


def with_parameters(notebook: Any, parameters: Mapping[str, object]) -> None:
    """Put a cell with these values behind the one tagged `parameters`, or first; in place of an earlier one."""
    notebook.cells = [cell for cell in notebook.cells if INJECTED not in cell.metadata.get("tags", [])]
    if parameters:
        tagged = [at for at, cell in enumerate(notebook.cells) if PARAMETERS in cell.metadata.get("tags", [])]
        made: Any = nbformat.v4
        cell = made.new_code_cell(assignments(parameters), metadata={"tags": [INJECTED]})
        if notebook.nbformat_minor < WITH_IDS:
            del cell["id"]
        notebook.cells.insert(tagged[0] + 1 if tagged else 0, cell)


class _Manager(AsyncKernelManager):
    """Of kernels of this very interpreter, whatever kernels the machine knows."""

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            KERNEL,
            os.pathsep.join(sys.path),
            "-f",
            "{connection_file}",
            DIRECT,
        ]
        return KernelSpec(argv=argv, display_name="Python 3", language="python")


class _Client(NotebookClient):
    """Prints what comes, and saves after each cell. `sockets`: the folder of those that the kernel is spoken to by."""

    def __init__(self, notebook: Any, *, result: Path, sockets: str, **settings: Any) -> None:
        super().__init__(notebook, timeout=None, startup_timeout=START_SECONDS, **settings)
        self._result, self._sockets = result, sockets
        self._kernel: Popen[bytes] | None = None
        self.on_cell_executed = self._save

    async def ended(self) -> int:
        """The exit code of the whole notebook."""
        try:
            await self.async_execute()
        except CellExecutionError as error:
            return _code_of(error)
        except DeadKernelError:
            return _code_of_kernel(self._kernel)
        finally:
            self._save()
        return 0

    def create_kernel_manager(self) -> AsyncKernelManager:
        self.km = _Manager(transport="ipc", connection_file=f"{self._sockets}/kernel")
        self.km.shutdown_wait_time = LEAVE_SECONDS
        return self.km

    async def async_start_new_kernel_client(self) -> Any:
        client = await super().async_start_new_kernel_client()
        started: Any = self.km
        self._kernel = started.provisioner.process
        self._sigterm = asyncio.create_task(_pass_on_sigterm(started.provisioner.process))
        return client

    async def async_execute_cell(
        self, cell: Any, cell_index: int, execution_count: int | None = None, store_history: bool = True
    ) -> Any:
        try:
            return await super().async_execute_cell(cell, cell_index, execution_count, store_history)
        except CellExecutionError as error:
            self._say_where(_code_of(error))
            raise
        except DeadKernelError:
            await self._take_the_rest(cell, cell_index)
            self._say_where(_code_of_kernel(self._kernel))
            raise

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        _show(msg["msg_type"], msg["content"])
        return super().process_message(msg, cell, cell_index)

    def _say_where(self, code: int) -> None:
        """At once: what comes behind this line is not why the notebook ended (training/host/program/ending.py). A
        kernel may show exceptions of its own as it leaves."""
        name, number = self._result.name, self.code_cells_executed
        if code and number:
            print(f"cell [{number}] of {name} ended with exit code {code}", flush=True)

    async def _take_the_rest(self, cell: Any, cell_index: int) -> None:
        """Of what a kernel has said that is dead now."""
        cell["execution_count"] = self.code_cells_executed
        client: Any = self.kc
        try:
            while True:
                msg = await client.iopub_channel.get_msg(timeout=LOOK_SECONDS)
                self.process_message(msg, cell, cell_index)
        except (Empty, CellExecutionComplete):
            return

    def _save(self, **_: Any) -> None:
        half = self._result.parent.with_name(
            f".{self._result.name}.half"
        )  # not in the folder that is carried away
        nbformat.write(self.nb, half)  # type: ignore[no-untyped-call]
        half.replace(self._result)


def _show(kind: str, content: Mapping[str, Any]) -> None:
    """What a cell says, as a script would print it."""
    match kind:
        case "stream":
            text = str(content["text"])
        case "error":
            text = "\n".join(map(str, content["traceback"])) + "\n"
        case "execute_result" | "display_data" if "text/plain" in content["data"]:
            text = f"{content['data']['text/plain']}\n"
        case _:
            return
    print(ESCAPES.sub("", text), end="", flush=True)


def _code_of(error: CellExecutionError) -> int:
    """That a script would have ended with."""
    if error.ename != "SystemExit":
        return 1
    said = str(error.evalue).strip()
    return 0 if said in ("", "None") else int(said) & 0xFF if said.lstrip("-").isdigit() else 1


def _code_of_kernel(kernel: Popen[bytes] | None) -> int:
    """Of one that has ended by itself: 128 + n where signal n has ended it, as a shell has it."""
    code = kernel.poll() if kernel else None
    return 1 if code is None else 128 - code if code < 0 else code


async def _pass_on_sigterm(kernel: Popen[bytes]) -> None:
    """To the kernel, from when on it has a handler. Until then this process has none either: the host's agent, which
    looks for one, lets such a program go on until its next checkpoint is in the bucket."""
    loop, hears = asyncio.get_running_loop(), False
    loop.remove_signal_handler(signal.SIGTERM)  # nbclient's, which ends the kernel
    while kernel.poll() is None:
        if _hears(kernel.pid) != hears:
            hears = not hears
            if hears:
                loop.add_signal_handler(signal.SIGTERM, kernel.send_signal, signal.SIGTERM)
            else:
                loop.remove_signal_handler(signal.SIGTERM)
        await asyncio.sleep(LOOK_SECONDS)


def _hears(pid: int) -> bool:
    """Whether SIGTERM does something else to the process than end it."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^Sig(?:Ign|Cgt):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)
