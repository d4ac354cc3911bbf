"""Execute a notebook in a kernel by nbclient. Output is printed at once, and the notebook is saved after each cell.

This process stands for the kernel: it passes SIGTERM on, and exits with the kernel's code if the kernel ends by itself
(`sys.exit`, `os._exit`, a signal).
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
"""Seconds for the start of a kernel from a disk that is read for the first time."""
LEAVE_SECONDS = 60
"""Seconds for the exit of a kernel after the last cell."""
LOOK_SECONDS = 0.5
DIRECT = "--IPKernelApp.capture_fd_output=False"
"""Let libraries and child processes of the kernel write to the log directly. Otherwise, output at the end of a cell is
lost, and other output appears twice."""
WITH_IDS = 5
"""The first minor version of the format with cell IDs."""
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
"""Colours of a traceback."""
KERNEL = (
    "import os, sys; sys.path[:] = sys.argv.pop(1).split(os.pathsep); "
    "from ipykernel.kernelapp import launch_new_instance; launch_new_instance()"
)
"""A kernel with the import path of this process, which may include Jupyter."""


def execute(file: Path, result: Path, parameters: Mapping[str, object]) -> int:
    """Execute `file` in its folder, save each cell's results to `result`, and return the exit code of an equal script.

    Raises OSError if a file cannot be read or written, nbformat.ValidationError if `file` is not a notebook, and
    RuntimeError if no kernel starts.
    """
    notebook = nbformat.read(file, as_version=FORMAT)  # type: ignore[no-untyped-call]
    with_parameters(notebook, parameters)
    result.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kernel-") as folder:
        client = _Client(
            notebook, result=result, sockets=folder, resources={"metadata": {"path": str(file.parent)}}
        )
        return asyncio.run(client.run())


def with_parameters(notebook: Any, parameters: Mapping[str, object]) -> None:
    """Insert a cell with these values after the cell tagged `parameters`, or first. Replace an earlier one."""
    notebook.cells = [cell for cell in notebook.cells if INJECTED not in cell.metadata.get("tags", [])]
    if parameters:
        tagged = [at for at, cell in enumerate(notebook.cells) if PARAMETERS in cell.metadata.get("tags", [])]
        made: Any = nbformat.v4
        cell = made.new_code_cell(assignments(parameters), metadata={"tags": [INJECTED]})
        if notebook.nbformat_minor < WITH_IDS:
            del cell["id"]
        notebook.cells.insert(tagged[0] + 1 if tagged else 0, cell)


class _Manager(AsyncKernelManager):
    """A manager that always starts kernels of this interpreter."""

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
    """A client that prints output and saves after each cell. `sockets` is the folder of the kernel's sockets."""

    def __init__(self, notebook: Any, *, result: Path, sockets: str, **settings: Any) -> None:
        super().__init__(notebook, timeout=None, startup_timeout=START_SECONDS, **settings)
        self._result, self._sockets = result, sockets
        self._kernel: Popen[bytes] | None = None
        self.on_cell_executed = self._save

    async def run(self) -> int:
        """Run the notebook and return its exit code."""
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
            self._print_cell(_code_of(error))
            raise
        except DeadKernelError:
            await self._take_rest(cell, cell_index)
            self._print_cell(_code_of_kernel(self._kernel))
            raise

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        _show(msg["msg_type"], msg["content"])
        return super().process_message(msg, cell, cell_index)

    def _print_cell(self, code: int) -> None:
        """Print the failed cell at once, because training/host/program/ending.py ignores later lines as the cause: a
        kernel may print exceptions of its own when it exits.
        """
        name, number = self._result.name, self.code_cells_executed
        if code and number:
            print(f"cell [{number}] of {name} ended with exit code {code}", flush=True)

    async def _take_rest(self, cell: Any, cell_index: int) -> None:
        """Take the remaining messages of a dead kernel."""
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
        )  # outside the folder that is uploaded
        nbformat.write(self.nb, half)  # type: ignore[no-untyped-call]
        half.replace(self._result)


def _show(kind: str, content: Mapping[str, Any]) -> None:
    """Print the output of a cell as a script would."""
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
    """Return the exit code of a script with the same error."""
    if error.ename != "SystemExit":
        return 1
    code = str(error.evalue).strip()
    return 0 if code in ("", "None") else int(code) & 0xFF if code.lstrip("-").isdigit() else 1


def _code_of_kernel(kernel: Popen[bytes] | None) -> int:
    """Return the exit code of a dead kernel, as a shell does: 128 + n for signal n."""
    code = kernel.poll() if kernel else None
    return 1 if code is None else 128 - code if code < 0 else code


async def _pass_on_sigterm(kernel: Popen[bytes]) -> None:
    """Pass SIGTERM on once the kernel has a handler.

    Until then this process has no handler either: the host agent checks for one, and lets a program without one run
    until its next checkpoint is in the bucket.
    """
    loop, handled = asyncio.get_running_loop(), False
    loop.remove_signal_handler(signal.SIGTERM)  # nbclient's handler would end the kernel
    while kernel.poll() is None:
        if _handles_sigterm(kernel.pid) != handled:
            handled = not handled
            if handled:
                loop.add_signal_handler(signal.SIGTERM, kernel.send_signal, signal.SIGTERM)
            else:
                loop.remove_signal_handler(signal.SIGTERM)
        await asyncio.sleep(LOOK_SECONDS)


def _handles_sigterm(pid: int) -> bool:
    """Return True if the process handles or ignores SIGTERM."""
    status = Path(f"/proc/{pid}/status").read_text()
    masks = re.findall(r"^Sig(?:Ign|Cgt):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)
