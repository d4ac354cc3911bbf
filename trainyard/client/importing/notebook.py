"""The code of a notebook."""

from trainyard.client.errors import NotImportable
from trainyard.client.importing.foreign import read_json

PYTHON_CELLS = ("%%time", "%%capture")
"""The magics of cells that contain Python."""


def code_of(text: str, name: str) -> str:
    """Return the code of a notebook, each line in the line that it has in the notebook's file.

    Raise NotImportable for a file that is not a notebook."""
    file = read_json(text, name)
    cells = file.look("cells")
    if not isinstance(cells, list):
        raise NotImportable(f"{name} is not a notebook: it has no cells", "name a notebook of version 4")
    code = list[str]()
    for number, cell in enumerate(cells):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source") or []
        lines = source.split("\n") if isinstance(source, str) else [str(each) for each in source]
        if lines and lines[0].startswith("%%") and not lines[0].startswith(PYTHON_CELLS):
            continue
        for part, line in enumerate(lines):
            missing = (file.line(("cells", number, "source", part)) or 1) - 1 - len(code)
            code += [""] * missing  # each line of code is in the line that it has in the file
            code.append(_python(line))
    return "\n".join(code)


def _python(line: str) -> str:
    """Return a line of a cell as Python. Magics and shell commands become `pass`."""
    plain = line.rstrip("\n")
    before = plain[: len(plain) - len(plain.lstrip())]
    return f"{before}pass" if plain.lstrip().startswith(("%", "!", "?")) else plain
