"""`python -m trainyard.notebook NOTEBOOK.ipynb [--NAME VALUE ...]`: what the job of a notebook runs on each host.

The executed notebook is kept in the folder that TRAINYARD_NOTEBOOK names, which is carried to the bucket; on a laptop
in ./training-output. Each NAME is a parameter, its VALUE JSON or plain text.
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from trainyard.notebook.document import value_of

JUPYTER = Path("/opt/trainyard/jupyter")
"""Where images have JupyterLab, and with it what executes notebooks."""
BAD_USE = 2
LIBRARIES = ("nbclient", "ipykernel")


def main(words: Sequence[str]) -> int:
    """The exit code of the notebook's program; of what it could not do, 1 with a sentence."""
    if not words or words[0].startswith("-"):
        print("usage: python -m trainyard.notebook NOTEBOOK.ipynb [--NAME VALUE ...]", file=sys.stderr)
        return BAD_USE
    sys.path.extend(map(str, JUPYTER.glob("lib/python3.*/site-packages")))
    if missing := [name for name in LIBRARIES if find_spec(name) is None]:
        print(
            f"ModuleNotFoundError: this image has no {' and no '.join(missing)}, which notebooks need: bake it anew, "
            "with JupyterLab, or add nbclient and ipykernel to the file that program.requirements names",
            file=sys.stderr,
        )
        return 1
    from trainyard.notebook.execution import execute

    file = Path(words[0]).absolute()
    result = Path(os.environ.get("TRAINYARD_NOTEBOOK", "training-output/notebook")).absolute() / file.name
    return execute(file, result, parameters(words[1:]))


def parameters(words: Sequence[str]) -> dict[str, object]:
    """Of `--NAME VALUE`, `--NAME=VALUE` and `--NAME`, which is True."""
    found: dict[str, object] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, joined, value = word.removeprefix("--").partition("=")
            found[name] = value_of(value) if joined else True
        else:
            found[name] = value_of(word)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
