"""Lists of packages: the formats of other tools with the command that converts each for pip, and the local paths in a
list for pip. Hosts use this module, too."""

import codecs
import posixpath
import re
from collections.abc import Callable

from trainyard.values.lazy import dataclass

EDITABLE = "echo '-e .' > requirements.txt"


@dataclass(frozen=True)
class OtherList:
    """A list of another tool. `convert` is the command to run in the folder of the list."""

    made_by: str
    convert: str


_CONDA = OtherList("conda", "conda run -n NAME python -m pip list --format=freeze > requirements.txt")
OTHER_LISTS = {
    "environment.yml": _CONDA,
    "environment.yaml": _CONDA,
    "conda.yml": _CONDA,
    "conda.yaml": _CONDA,
    "conda-lock.yml": _CONDA,
    "pyproject.toml": OtherList("a Python project", EDITABLE),
    "setup.py": OtherList("a Python project", EDITABLE),
    "setup.cfg": OtherList("a Python project", EDITABLE),
    "poetry.lock": OtherList("Poetry", "poetry export -f requirements.txt -o requirements.txt"),
    "Pipfile": OtherList("Pipenv", "pipenv requirements > requirements.txt"),
    "Pipfile.lock": OtherList("Pipenv", "pipenv requirements > requirements.txt"),
    "uv.lock": OtherList("uv", "uv export --no-hashes --output-file requirements.txt"),
    "pdm.lock": OtherList("PDM", "pdm export -o requirements.txt"),
    "pixi.toml": OtherList("Pixi", "pixi run python -m pip list --format=freeze > requirements.txt"),
    "pixi.lock": OtherList("Pixi", "pixi run python -m pip list --format=freeze > requirements.txt"),
}
"""The lists of other tools, by file name."""
OTHER_ENDINGS = (".yml", ".yaml", ".toml", ".lock", ".json", ".cfg", ".py")
"""Endings of files that are not lists for pip."""
COMMENT = re.compile(r"(^|\s+)#.*$")
"""The pattern of pip itself (pip/_internal/req/req_file.py)."""
ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2")
"""Endings of files that pip installs."""
BUILT_BY = ("pyproject.toml", "setup.py")
"""The files of a project. pip installs a folder only if it contains one of them."""
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks with their encodings. A mark that begins with another one comes first."""


def other_list(path: str) -> OtherList | None:
    """Return the tool whose list this file is, or None for a file that pip may be able to read."""
    name = path.rpartition("/")[2]
    if name in OTHER_LISTS:
        return OTHER_LISTS[name]
    if name.endswith((".yml", ".yaml")):
        return _CONDA
    return (
        OtherList("another tool", "python -m pip freeze > requirements.txt")
        if name.endswith(OTHER_ENDINGS)
        else None
    )


def text_of(content: bytes) -> str:
    """Decode a list as pip does: by its byte order mark, otherwise as UTF-8."""
    for mark, encoding in MARKS:
        if content.startswith(mark):
            return content.decode(encoding, errors="replace").removeprefix("\ufeff")
    return content.decode(errors="replace")


def lines_of(text: str) -> list[str]:
    """Return the lines of a list as pip reads them, without comments. A backslash at the end of a line continues it,
    except in a comment."""
    lines, begun = [], ""
    for line in text.splitlines():
        is_comment = COMMENT.match(line) is not None
        if line.endswith("\\") and not is_comment:
            begun += line.strip("\\")
        else:
            lines.append(f"{begun} {line}" if is_comment else f"{begun}{line}")
            begun = ""
    return [line for each in (*lines, begun) if (line := COMMENT.sub("", each).strip())]


def paths_in(content: bytes) -> tuple[str, ...]:
    """Return the local paths in a list: projects, wheels and folders of wheels. Absolute paths and paths with variables
    are left out."""
    found = (_path_in(line) for line in lines_of(text_of(content)))
    return tuple(dict.fromkeys(path for path in found if path))


def projects_in(content: bytes) -> tuple[str, ...]:
    """Return the paths of `paths_in` that pip builds: folders of projects."""
    lines = [line for line in lines_of(text_of(content)) if _option(line)[0] not in ("-f", "--find-links")]
    found = (_path_in(line) for line in lines)
    return tuple(dict.fromkeys(path for path in found if path and not path.endswith(ARCHIVES)))


def base_of(paths: tuple[str, ...], own: str, holds: Callable[[str], bool]) -> str | None:
    """Return the folder that all paths are relative to: the list's folder `own`, the top folder (""), or None for
    neither.

    `holds` returns True if the program contains a path.
    """
    for folder in dict.fromkeys((own, "")):
        if all(holds(join_path(folder, path)) for path in paths):
            return folder
    return None


def join_path(folder: str, path: str) -> str:
    """Return the path from the program's top folder, without `.` and `..`."""
    whole = posixpath.normpath(posixpath.join(folder, path))
    return "" if whole == "." else whole


def _path_in(line: str) -> str | None:
    option, value = _option(line)
    if option in ("-e", "--editable", "-f", "--find-links"):
        is_folder = option in ("-f", "--find-links")
        return _local(value, is_folder=is_folder)
    return None if option else _local(re.split(r"\s+(?:--|;)|;", line)[0].strip(), is_folder=False)


def _option(line: str) -> tuple[str, str]:
    """Return the option and its value. The option is empty for a requirement."""
    if not line.startswith("-"):
        return "", line
    found = re.match(r"(--[a-z-]+|-[a-zA-Z])[\s=]*(.*)", line)
    return (found[1], found[2].strip().strip("'\"")) if found else ("-", "")


def _local(value: str, *, is_folder: bool) -> str | None:
    path = re.sub(r"\[[^\]]*\]$", "", value)
    if "://" in path or path.startswith(("/", "~")) or "${" in path or "@" in path.partition("/")[0]:
        return None
    is_path = is_folder or path.startswith(".") or "/" in path or path.endswith(ARCHIVES)
    return path if is_path and path else None
