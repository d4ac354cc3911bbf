"""The packages a program asks for, layered on those of the image.

pip, not the image's uv: uv does not see what a virtual environment has from elsewhere, and would fetch TensorFlow anew.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from training.host.account import as_this_thread
from training.host.disk import inside
from training.host.errors import HostTrouble, ProgramFault, Unreachable
from training.host.paths import Paths
from trainyard.core.jobfile.package_lists import base_of, lines_of, paths_in, text_of

INSTALL_SECONDS = 1800
LOOK_SECONDS = 120
MOST_SCRIPT = 64 * 1024
"""Bytes of a command that pip writes; it has some 200."""
LINES_SAID = 4
TELLING = ("error", "\N{MULTIPLICATION SIGN}", "╰─>", "modulenotfounderror", "importerror")
HASH = re.compile(r"\s--hash=sha256:[0-9a-f]{64}")
NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\[\], ()!=<>~*+;'\"-]*")
"""A requirement that names a package, with its versions and markers."""
OPTION = re.compile(r"\s-")
"""An option behind a requirement, such as --config-settings."""
OTHER_ENCODING = re.compile(
    r"\A(?:[^\n]*\n)?[ \t]*#[^\n]*coding[:=][ \t]*(?!utf-?8\b|us-ascii\b|ascii\b)", re.IGNORECASE
)
"""A comment in the first two lines by which pip reads the list in another encoding than a host does."""
NO_WAY = re.compile(
    r"connection broken by|\b(429|5\d\d) (Client|Server) Error|HTTP error (429|5\d\d)|ReadTimeoutError|Read timed out"
    r"|ConnectionResetError|ProtocolError"
)
"""What pip says of a package index that does not answer, or refuses for now."""


def install(requirements: str, paths: Paths) -> str | None:
    """A virtual environment of the run's own, that of an earlier run of this host where that had the same list. What
    the image has is not installed again, and needs no network. What the list is known by, None for one whose packages
    are no other run's."""
    listed = inside(paths.program, requirements)
    if not listed.is_file():
        raise ProgramFault(
            f"program.requirements names {requirements}, which the program's archive does not hold"
        )
    text = listed.read_bytes()
    known_by = list_of_packages(text_of(text))
    if known_by and (paths.spare / known_by).is_dir():
        (paths.spare / known_by).rename(paths.venv)
        return known_by
    command(
        [str(paths.python), "-m", "venv", "--without-pip", str(paths.venv)], "making the run's environment"
    )
    layer = site_packages(paths.venv)
    (layer / "trainyard-image.pth").write_text(f"{site_packages(paths.python.parent.parent)}\n")
    # -P: in the program's folder Python would take a random.py of the program's for its own
    pip = [str(paths.venv / "bin/python"), "-P", "-m", "pip", "install", "--no-input", "--no-color"]
    quiet = ["--disable-pip-version-check", "--quiet"]
    command(
        [*pip, *quiet, "--requirement", str(listed)],
        f"installing {requirements}",
        seconds=INSTALL_SECONDS,
        folder=_base(text, requirements, paths),
    )
    bring_commands(paths.python.parent, paths.venv / "bin")
    return known_by


def _base(text: bytes, requirements: str, paths: Paths) -> Path:
    """Return the folder that the paths in a list start from, as a user who types `pip install -r` would choose it: the
    list's own folder, or the program's if all that it names is there."""
    own = str(PurePosixPath(requirements).parent)
    base = base_of(paths_in(text), own, lambda path: (paths.program / path).exists())
    return paths.program / (own if base is None else base)


def list_of_packages(text: str) -> str | None:
    """What a list of requirements is known by; None for one that brings more than packages of the index: an option, a
    path, an address."""
    wanted = [HASH.sub("", f" {line}").strip() for line in lines_of(text)]
    is_plain = all(NAMED.fullmatch(line) and not OPTION.search(line) for line in wanted)
    if not is_plain or OTHER_ENCODING.search(text) or paths_in(text.encode()):
        return None
    return hashlib.sha256(text.encode()).hexdigest()


def bring_commands(image: Path, own: Path) -> None:
    """The image's own commands once more, by the interpreter in `own`: those of the image would not see what its
    environment has beside it. What pip has installed there stays."""
    for script in image.iterdir():
        target = own / script.name
        if script.is_symlink() or not script.is_file() or target.exists():
            continue
        with script.open("rb") as file:
            first, rest = file.readline(), file.read(MOST_SCRIPT)
        if first.startswith(f"#!{image}/python".encode()) and len(rest) < MOST_SCRIPT:
            target.write_bytes(f"#!{own / 'python'}\n".encode() + rest)
            target.chmod(0o755)


def commands_path(paths: Paths, system: str) -> str:
    """Where a program's commands are found: the run's own, the image's, then the `system`'s."""
    folders = [folder for folder in (paths.venv / "bin", paths.python.parent) if folder.is_dir()]
    return os.pathsep.join([*map(str, folders), system])


def site_packages(environment: Path) -> Path:
    return next((environment / "lib").glob("python3.*/site-packages"))


def python_for(paths: Paths) -> Path:
    """The interpreter a program runs with: the run's own environment if it has one."""
    own = paths.venv / "bin/python"
    return own if own.exists() else paths.python


def command(
    arguments: Sequence[str], doing: str, *, seconds: float = LOOK_SECONDS, folder: Path | None = None
) -> str:
    """What the command printed, run in the folder, as the account that this thread acts as: what pip installs may be
    code that runs then. Raises ProgramFault with its telling lines when it fails."""
    try:
        done: subprocess.CompletedProcess[str] = subprocess.run(
            arguments,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=folder,
            **as_this_thread(),
        )
    except subprocess.TimeoutExpired as error:
        raise ProgramFault(f"{doing} took longer than {seconds:g} seconds", final=False) from error
    except OSError as error:
        raise HostTrouble(f"{doing} failed: {error}") from error
    if done.returncode:
        output = done.stderr.strip() or done.stdout
        lines = " / ".join(telling_lines(output))
        if NO_WAY.search(output):
            raise Unreachable(
                f"{doing} failed: {lines}; a package index could not be reached from this host: add the packages to "
                "the image, or let hosts reach the index"
            )
        raise ProgramFault(f"{doing} failed: {lines}")
    return done.stdout


def telling_lines(output: str) -> list[str]:
    """The first lines in which pip names the error; where it names none, the last ones that are no warning."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    worded = [line for line in lines if not line.startswith(("WARNING:", "[notice]", "DEPRECATION:"))]
    named = [line for line in worded if line.lower().startswith(TELLING)]
    return list(dict.fromkeys(named))[:LINES_SAID] or worded[-LINES_SAID:]
