"""`python -m trainyard.notebook NOTEBOOK.ipynb [--NAME VALUE ...]`: the program of a notebook's job on each host.

The executed notebook is written to the folder TRAINYARD_NOTEBOOK, which is uploaded to the bucket, or to
./training-output on a laptop. Each NAME is a parameter, and its VALUE is JSON or plain text.
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from trainyard.notebook.document import value_of

JUPYTER = Path("/opt/trainyard/jupyter")
"""JupyterLab in images, with the libraries that execute notebooks."""
BAD_USE = 2
LIBRARIES = ("nbclient", "ipykernel")


def main(words: Sequence[str]) -> int:
    """Run the notebook and return its exit code; return 1 and print a sentence if it cannot run."""
    if not words or words[0].startswith("-"):
        print("usage: python -m trainyard.notebook NOTEBOOK.ipynb [--NAME VALUE ...]", file=sys.stderr)
        return BAD_USE
    sys.path.extend(map(str, JUPYTER.glob("lib/python3.*/site-packages")))
    if missing := [name for name in LIBRARIES if find_spec(name) is None]:
        print(
            f"ModuleNotFoundError: this image lacks {' and '.join(missing)}, which notebooks need: bake an image with "
            "JupyterLab, or add nbclient and ipykernel to the file that program.requirements names",
            file=sys.stderr,
        )
        return 1
    from trainyard.notebook.execution import execute

    file = Path(words[0]).absolute()
    result = Path(os.environ.get("TRAINYARD_NOTEBOOK", "training-output/notebook")).absolute() / file.name
    return execute(file, result, parameters(words[1:]))


def parameters(words: Sequence[str]) -> dict[str, object]:
    """Parse `--NAME VALUE`, `--NAME=VALUE`, and `--NAME`, which means True."""
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
