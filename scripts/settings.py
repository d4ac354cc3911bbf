"""Settings of a deployment, from the command, the clone's cdk.json, and the deployed yard, in this order."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from stacks.settings import YardSettings
from trainyard.core.model.yard import settings
from trainyard.core.model.yard.settings import READERS


@dataclass(frozen=True)
class Choice:
    """Settings in the form of `-c`, and a line for each one that the user may not expect."""

    words: Mapping[str, str]
    lines: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Return them as arguments of `cdk`."""
        return [word for key, value in self.words.items() for word in ("-c", f"{key}={value}")]


def choose(
    named: Mapping[str, str],
    clone: Mapping[str, str],
    deployed: Mapping[str, str],
    reset: Collection[str] = (),
) -> Choice:
    """Return the settings of a deployment. Raise ValueError for an unknown key.

    `named` comes from `-c`, `clone` from cdk.json (without defaults), `deployed` from the deployed yard. `reset` has
    the keys to reset.
    """
    for key in reset:
        settings.refuse_unknown(key)
    kept = {
        key: value
        for key, value in deployed.items()
        if key in READERS and key not in {*named, *clone, *reset}
    }
    return Choice({**kept, **named}, tuple(_lines(named, clone, deployed, reset, kept)))


def settings_of_clone(context: Mapping[str, object]) -> Mapping[str, str]:
    """Return the settings of a cdk.json that differ from the defaults. Raise ValueError that names an invalid key."""
    for key in context:
        settings.refuse_unknown(key)
    return YardSettings.from_context(context).remembered


def _lines(
    named: Mapping[str, str],
    clone: Mapping[str, str],
    deployed: Mapping[str, str],
    reset: Collection[str],
    kept: Mapping[str, str],
) -> Iterator[str]:
    if kept:
        words = " ".join(f"{key}={value}" for key, value in sorted(kept.items()))
        yield f"kept       {words}: settings of the deployed yard; --reset KEY sets one back"
    for source, given in (
        ("-c", named),
        ("cdk.json", {key: clone[key] for key in clone if key not in named}),
    ):
        for key, value in sorted(given.items()):
            if key in deployed and _differ(key, deployed[key], value):
                yield f"changed    {key}={value} by {source}; it was {deployed[key]}"
    for key in sorted({*reset} & {*deployed} - {*named, *clone}):
        yield f"reset      {key}; it was {deployed[key]}"
    if unknown := sorted({*deployed} - {*READERS}):
        yield f"forgotten  {', '.join(unknown)}: this version has no such settings"


def _differ(key: str, before: str, now: str) -> bool:
    return bool(settings.read(key, before) != settings.read(key, now))
