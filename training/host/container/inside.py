"""A program in a container: its words, its variables, and what it sees of the host."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trainyard
from training.host.account import Account, remove_tree
from training.host.container import cat
from training.host.container.configuration import find_command, find_user, python_version
from training.host.container.driver import LIBRARIES, Driver
from training.host.container.enter import Entrance, Mount
from training.host.container.pull import Image
from training.host.disk import fresh
from training.host.errors import ProgramFault
from training.host.paths import Paths
from trainyard.protocol.containers import Container

OLDEST_PYTHON = (3, 10)
"""The oldest Python that can import our runtime library. Older ones get only variables and flags."""
CROSSING = ("AWS_", "TRAINYARD_")
"""The beginnings of the agent's own variables that a container gets, too."""
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "TZ")
SYSTEM = ("/proc", "/sys", "/dev")
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts")


@dataclass(frozen=True, kw_only=True)
class Inside:
    """The container of a job's program on this host."""

    container: Container
    image: Image
    driver: Driver

    @property
    def user(self) -> tuple[int, int]:
        """Return the numbers of the image's user and group. Raises ProgramFault for a name that is not in the image."""
        return find_user(self.image.root, self.image.configuration.user)

    @property
    def path(self) -> str:
        return self.image.configuration.path

    @property
    def lacks_cat(self) -> bool:
        return cat.is_missing(self.image.root)

    @property
    def reads_our_library(self) -> bool:
        """Return True unless the image's Python is known to be too old."""
        version = python_version(self.image.root, self.path)
        return version is None or version >= OLDEST_PYTHON

    def words(self, asked: Sequence[str]) -> list[str]:
        """Return the words of `docker run IMAGE WORDS`: `asked` replaces the image's CMD and follows its ENTRYPOINT."""
        configuration = self.image.configuration
        first = configuration.entrypoint if self.container.entrypoint else ()
        return [*first, *(asked or configuration.cmd)]

    def words_of_module(self, module: str) -> list[str]:
        """Return the words that run a module with the image's Python."""
        return self.words([self.python, "-m", module])

    @property
    def python(self) -> str:
        """Return the name of the image's Python."""
        return "python" if self.has("python") else "python3"

    def has(self, command: str) -> bool:
        """Return True if a folder of the image's PATH has this command."""
        return find_command(self.image.root, command, self.path) is not None

    def variables(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that any other one overrides: the agent's own that concern AWS or the network, and the
        image's. Add the GPU driver's libraries, which no image contains."""
        own = {
            name: value
            for name, value in given.items()
            if name.startswith(CROSSING) or name.upper() in PROXIES
        }
        variables = own | self.image.configuration.variables
        if self.driver.mounts:
            libraries = variables.get("LD_LIBRARY_PATH", "")
            variables["LD_LIBRARY_PATH"] = f"{libraries}:{LIBRARIES}" if libraries else LIBRARIES
        return variables

    def search_path(self, ours: Sequence[str], programs: Sequence[str]) -> str:
        """Return PYTHONPATH: `ours` and the runtime library for a Python that can read them, the program's own folders,
        then the image's."""
        of_image = self.image.configuration.variables.get("PYTHONPATH", "")
        library = [str(_library())] if self.reads_our_library else []
        first = list(ours) if self.reads_our_library else []
        return os.pathsep.join([*first, *programs, *library, *([of_image] if of_image else [])])

    def commands_path(self, paths: Paths) -> str:
        """Return PATH: the commands of the run's own packages, then the image's."""
        own = paths.venv / "bin"
        return os.pathsep.join([*([str(own)] if own.is_dir() else []), self.path])

    def entrance(self, paths: Paths, account: Account, *, has_source: bool, most_tasks: int) -> Entrance:
        folder = str(paths.program) if has_source else self.image.configuration.folder or "/"
        return Entrance(
            image=str(self.image.root),
            changes=tuple(map(str, folders_of_changes(paths))),
            account=(account.uid, account.gid),
            user=self.user,
            mounts=(*_mounts(paths), *self.driver.mounts, *(cat.mounts() if self.lacks_cat else ())),
            folder=folder,
            home=str(paths.home),
            most_tasks=most_tasks,
        )

    def check_words(self, words: Sequence[str]) -> None:
        """Raises ProgramFault if there is nothing to start."""
        if not words:
            raise ProgramFault(
                f"the image {self.container.image} has neither ENTRYPOINT nor CMD, so there is nothing to run: "
                "write program.command"
            )


def folders_of_changes(paths: Paths) -> tuple[Path, ...]:
    """Return the folders that can hold what a program changes in its image, in the order of preference. The root of a
    host of the local cloud cannot, because it is an overlay itself."""
    return (paths.containers / "changes", paths.root / "tmp/trainyard-changes")


def clear_changes(paths: Paths, account: Account) -> None:
    """Remove what an earlier program has changed in its image, and create an empty /tmp for the next one."""
    for folder in folders_of_changes(paths):
        if os.path.lexists(folder):
            remove_tree(folder)
    with account.act():
        fresh(paths.containers / "tmp")
        (paths.containers / "tmp").chmod(0o1777)


def _library() -> Path:
    """Return the folder inside, which contains nothing but our runtime library."""
    return Path("/opt/trainyard/library")


def _is_read_only(folder: Path) -> bool:
    return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)


def _mounts(paths: Paths) -> tuple[Mount, ...]:
    def show(
        path: Path, target: str | None = None, *, read_only: bool = True, optional: bool = False
    ) -> Mount:
        return Mount(
            os.path.realpath(path), target or f"/{path.relative_to(paths.root)}", read_only, optional
        )

    package = Path(trainyard.__file__).parent
    return (
        *(show(paths.root / name.lstrip("/"), read_only=False) for name in SYSTEM),
        show(paths.containers / "tmp", "/tmp", read_only=False),  # noqa: S108 - the run's own folder
        show(paths.home, read_only=False),
        *([show(paths.data)] if paths.data.is_dir() else []),
        *(show(folder, read_only=_is_read_only(folder)) for folder in sorted(paths.mounts.glob("*/files"))),
        show(paths.agent, optional=True),
        Mount(str(package), str(_library() / package.name), read_only=True, optional=True),
        show(paths.run, optional=True),
        show(paths.job, optional=True),
        *(show(paths.root / name.lstrip("/"), read_only=False, optional=True) for name in NETWORK_FILES),
    )
