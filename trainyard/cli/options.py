"""What every command takes, before its name or behind it: which yard, as whom, and how it answers.

What is not said comes from the environment (`TRAINYARD_YARD`, `AWS_PROFILE`, `AWS_REGION`), then from
`[tool.trainyard]` of the nearest pyproject.toml, then from `$XDG_CONFIG_HOME/trainyard/config.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.client import Session, Yard

NAME = "Trainyard"
SETTINGS = ("yard", "profile", "region", "output")
"""What a file may say."""
ENVIRONMENT = {
    "yard": ("TRAINYARD_YARD",),
    "profile": ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


class Output(StrEnum):
    """How a command answers."""

    TABLE = "table"
    JSON = "json"


class SettingsError(Exception):
    """A file of settings cannot be used; the text says which, where and why."""


@dataclass(frozen=True)
class Options:
    """What was said on the command line; `None` where it was not."""

    yard: str | None = None
    profile: str | None = None
    region: str | None = None
    output: Output | None = None
    quiet: bool = False

    def completed(self, environment: Mapping[str, str], folder: Path, home: Path) -> Options:
        """With what the environment and the files say of the rest. Raises SettingsError."""
        told = {**_of_user(environment, home), **_of_project(folder)}
        for name, variables in ENVIRONMENT.items():
            if found := next((environment[each] for each in variables if environment.get(each)), None):
                told[name] = found
        return self.over(
            Options(
                yard=told.get("yard"),
                profile=told.get("profile"),
                region=told.get("region"),
                output=Output(told.get("output", Output.TABLE)),
            )
        )

    def over(self, other: Options) -> Options:
        """With what the other says of what is not said here."""
        return Options(
            yard=self.yard or other.yard,
            profile=self.profile or other.profile,
            region=self.region or other.region,
            output=self.output or other.output,
            quiet=self.quiet or other.quiet,
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The yard, profile and region of these options, as they are typed."""
        said = {"--yard": self.yard, "--profile": self.profile, "--region": self.region}
        return tuple(word for name, value in said.items() if value for word in (name, value))

    @property
    def is_json(self) -> bool:
        return self.output is Output.JSON

    def session(self) -> Session:
        """Raises NoCredentials where there is no such profile."""
        from trainyard.client import Session

        return Session.of(profile=self.profile, region=self.region)

    def find(self) -> Yard:
        """The yard that is meant. Raises YardNotFound, YardIncomplete."""
        from trainyard.client import Yard

        return Yard.find(self.yard or NAME, session=self.session())


def _of_user(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    base = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    return _read(Path(base) / "trainyard" / "config.toml", ())


def _of_project(folder: Path) -> dict[str, str]:
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    file = next((each for each in files if each.is_file()), None)
    return _read(file, ("tool", "trainyard")) if file else {}


def _read(file: Path, section: tuple[str, ...]) -> dict[str, str]:
    """The settings in that section of the file; none where there is no such file."""
    import tomllib

    try:
        found: Any = tomllib.loads(file.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from error
    for key in section:
        found = found.get(key, {})
    for name, value in found.items():
        if name not in SETTINGS or not isinstance(value, str):
            raise SettingsError(
                f"{file}: {name} is not a setting; the settings {', '.join(SETTINGS)} are texts"
            )
    if found.get("output", "table") not in tuple(Output):
        raise SettingsError(f"{file}: output is table or json, not {found['output']}")
    return dict(found)
