"""A notebook as a host's program: executed cell by cell, and uploaded after any end."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from tests.contract.agent.host import Yard, packed
from tests.contract.conftest import ROOT, eventually
from tests.support.notebooks import notebook, printed_text
from training.host.program.process import Program

LIBRARIES = tuple(path for path in sys.path if "site-packages" in path)
SAVES = """
import os, pathlib, signal, sys
checkpoint = pathlib.Path(os.environ["TRAINYARD_CHECKPOINTS"]) / "step"
first = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("first step", first)
def leave(*_):
    checkpoint.write_text("7")
    sys.exit(75)
signal.signal(signal.SIGTERM, leave)
"""


LEAVES = b"zmq.error.ZMQError: Socket operation on non-socket\n"


def prepare(yard: Yard, text: str, *, libraries: Sequence[str] = LIBRARIES, **args: Any) -> None:
    """Prepare a notebook job with an interpreter that lacks `trainyard` and these libraries."""
    start = (
        f"import sys; sys.path[:0] = {[str(ROOT), *libraries]!r}; "
        "from trainyard.notebook.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [str(yard.paths.python), "-c", start, "t.ipynb"]
    yard.prepare("", program={"module": None, "command": command, "args": args})
    yard.put("programs/p.tar.gz", packed({"t.ipynb": text}))


def executed(yard: Yard) -> list[dict[str, Any]]:
    """Return the cells of the notebook in the bucket."""
    cells: list[dict[str, Any]] = json.loads(yard.read(f"runs/{yard.run}/notebook/t.ipynb"))["cells"]
    return cells


def test_it_is_executed_with_its_parameters_and_lies_in_the_bucket_with_what_its_cells_said(
    yard: Yard,
) -> None:
    prepare(
        yard,
        notebook("print('epochs', epochs, rate)", "40 + 2", parameters="epochs = 1\nrate = .5"),
        epochs=3,
    )
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    finished = yard.hear("finished")
    assert "working_folder" not in finished, "a notebook is what it has left"
    given, printed, answer = executed(yard)[1:]
    assert given["metadata"]["tags"] == ["injected-parameters"]
    assert printed_text(printed) == "epochs 3 0.5\n"
    assert answer["outputs"][0]["data"]["text/plain"] == ["42"]
    assert "epochs 3 0.5" in yard.log()


def test_what_only_ipython_reads_is_run_as_in_jupyter(yard: Yard) -> None:
    cells = [
        "mkdir out",
        "%cd out\n!echo 1 > a.txt  # which one?\nfiles = !ls",
        "t = %timeit -o -q -n1 -r1 sum(range(9))",
        "print?",
        "%%bash\necho by bash > b.txt",
        ">>> print('files', list(files), type(t).__name__, epochs)",
        "import os\nsorted(os.listdir())",
    ]
    prepare(yard, notebook(*cells, parameters="# how many?\n%precision 3\nepochs = 1"), epochs=3)
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    yard.hear("finished")
    *_, printed, last = executed(yard)
    assert printed_text(printed) == "files ['a.txt'] TimeitResult 3\n"
    assert last["outputs"][0]["data"]["text/plain"] == ["['a.txt', 'b.txt']"]


def test_a_cell_that_fails_is_the_reason_with_its_number_and_the_notebook_is_there_as_far_as_it_came(
    yard: Yard,
) -> None:
    """Test the reason of a failed cell, without the kernel's output at its end."""
    leaves = f"import atexit, os\natexit.register(os.write, 2, {LEAVES!r})\nprint('begun')"
    prepare(yard, notebook(leaves, "import math\nmath.sqrt(-1)", "print('never')"))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert failed["reason"].startswith(
        "the program ended with exit code 1: cell [2] of t.ipynb: ValueError: "
    )
    first, second, third = executed(yard)
    assert (printed_text(first), third["outputs"]) == ("begun\n", [])
    assert second["outputs"][-1]["ename"] == "ValueError"
    assert LEAVES.decode() in yard.log()


def test_one_that_is_told_to_leave_saves_and_goes_on_in_the_next_attempt(yard: Yard) -> None:
    prepare(yard, notebook(SAVES, "import time\nwhile not first:\n    time.sleep(.1)", "print('done')"))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    eventually(lambda: "first step 0" in yard.log())

    def hears() -> bool:
        """Return True if the process handles SIGTERM, which its kernel does from the first cell on."""
        program = Program.recall(yard.paths.process(1))
        return program is not None and program.handles_sigterm()

    eventually(hears)
    yard.order("stop", 1)
    stopped = yard.hear("stopped")
    assert stopped["why"] == "asked"
    yard.order("start", 2, checkpoint=yard.latest)
    yard.hear("finished", 2)
    assert "first step 7" in yard.log(attempt=2)
    assert printed_text(executed(yard)[-1]) == "done\n"


def test_what_its_libraries_print_is_in_the_log_once_also_where_the_kernel_dies_of_it(yard: Yard) -> None:
    prepare(yard, notebook("import os\nos.system('echo from below')", "!echo by IPython", "os.abort()"))
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert failed["reason"].startswith("the program was ended by SIGABRT")
    assert printed_text(executed(yard)[1]).split() == ["by", "IPython"]
    assert yard.log().count("from below") == 1
    assert "Fatal Python error: Aborted" in yard.log()


def test_an_image_without_jupyter_says_what_to_do(yard: Yard) -> None:
    prepare(yard, notebook("1"), libraries=())
    yard.start_agent()
    yard.hear("ready")
    yard.order("start", 1)
    failed = yard.hear("failed")
    assert "this image lacks" in failed["reason"]
    assert "bake an image with JupyterLab" in failed["reason"]
