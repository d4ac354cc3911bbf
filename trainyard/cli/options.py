"""The options of every command: yard, profile, region and output format.

Missing options come from the environment (`TRAINYARD_YARD`, `AWS_PROFILE`, `AWS_REGION`), then from `[tool.trainyard]`
of the nearest pyproject.toml, then from `$XDG_CONFIG_HOME/trainyard/config.toml`.
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
"""Keys that a settings file may contain."""
ENVIRONMENT = {
    "yard": ("TRAINYARD_YARD",),
    "profile": ("AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
}


class Output(StrEnum):
    """The output format of a command."""

    TABLE = "table"
    JSON = "json"


class SettingsError(Exception):
    """A settings file cannot be used. The text names the file and the reason."""


@dataclass(frozen=True)
class Options:
    """The options on the command line; None for an option that is missing."""

    yard: str | None = None
    profile: str | None = None
    region: str | None = None
    output: Output | None = None
    quiet: bool = False

    def complete(self, environment: Mapping[str, str], folder: Path, home: Path) -> Options:
        """Return the options, completed from the environment and the settings files. Raises SettingsError."""
        settings = {**_user_file(environment, home), **_project_file(folder)}
        for name, variables in ENVIRONMENT.items():
            if found := next((environment[each] for each in variables if environment.get(each)), None):
                settings[name] = found
        return self.over(
            Options(
                yard=settings.get("yard"),
                profile=settings.get("profile"),
                region=settings.get("region"),
                output=Output(settings.get("output", Output.TABLE)),
            )
        )

    def over(self, other: Options) -> Options:
        """Return these options, and take missing ones from `other`."""
        return Options(
            yard=self.yard or other.yard,
            profile=self.profile or other.profile,
            region=self.region or other.region,
            output=self.output or other.output,
            quiet=self.quiet or other.quiet,
        )

    @property
    def words(self) -> tuple[str, ...]:
        """Return the yard, profile and region as the user would type them."""
        typed = {"--yard": self.yard, "--profile": self.profile, "--region": self.region}
        return tuple(word for name, value in typed.items() if value for word in (name, value))

    @property
    def is_json(self) -> bool:
        return self.output is Output.JSON

    def session(self) -> Session:
        """Return a session. Raises NoCredentials if the profile does not exist."""
        from trainyard.client import Session

        return Session.of(profile=self.profile, region=self.region)

    def find(self) -> Yard:
        """Return the yard of these options. Raises YardNotFound, YardIncomplete."""
        from trainyard.client import Yard

        return Yard.find(self.yard or NAME, session=self.session())


def _user_file(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    base = environment.get("XDG_CONFIG_HOME") or str(home / ".config")
    return _read(Path(base) / "trainyard" / "config.toml", ())


def _project_file(folder: Path) -> dict[str, str]:
    files = (each / "pyproject.toml" for each in (folder, *folder.parents))
    file = next((each for each in files if each.is_file()), None)
    return _read(file, ("tool", "trainyard")) if file else {}


def _read(file: Path, section: tuple[str, ...]) -> dict[str, str]:
    """Return the settings in this section of the file; none if the file does not exist."""
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
        raise SettingsError(f"{file}: output must be table or json, not {found['output']}")
    return dict(found)
