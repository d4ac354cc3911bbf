"""Names of models, labels of their versions, and aliases."""

from trainyard.core.model.errors import ModelRefused
from trainyard.core.model.job_fields import NAME
from trainyard.values.fields import Text

NAMES = Text(NAME, "1 to 40 lower-case letters, digits and hyphens that begin with a letter")

RESERVED = ("canary", "shadow")


def check(kind: str, name: str) -> None:
    """Check the name of a model, a label or an alias."""
    if name.isdigit():
        raise ModelRefused(
            f"{kind}: {name} is a number, which would be mistaken for a version; begin with a letter, as in v{name}"
        )
    if problem := NAMES.problem(name):
        raise ModelRefused(f"{kind}: {problem}")


def check_alias(name: str) -> None:
    """Check an alias, which must not have the name of a canary or of a shadow."""
    check("alias", name)
    if name in RESERVED:
        raise ModelRefused(
            f"alias: {name} is the version that models canary tries, so no alias has this name; choose another one"
        )
