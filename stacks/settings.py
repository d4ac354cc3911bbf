"""What a person may choose about a yard: CDK context, read once, checked here."""

import json
import re
from dataclasses import dataclass

from constructs import Construct

from lambdas.core.model import policy
from lambdas.core.model.policy import Policy
from lambdas.core.values.validation import InputFaults, shown


@dataclass(frozen=True)
class YardSettings:
    """The choices of `cdk.json`, each of which `-c name=value` overrides."""

    prefix: str
    """Prefix of the stacks' names. Its lower case is the yard's name: the tag, the bus, the parameter."""
    private: bool
    """Hosts without public addresses, behind interface endpoints (about $0.01 an hour per endpoint and zone)."""
    zones: tuple[str, ...]
    """The Availability Zones that hosts may be in; none named: every one that the account has in the region."""
    disposable: bool
    """For try-outs: destroying the stacks also deletes the bucket (once empty) and the ledger."""
    notify: str
    """Mail address for concluded runs and alarms, or nothing."""
    base_image_parameter: str
    """Names the image that builders start from where the recipe names none."""
    bake_recipe: str
    """The recipe `images/<bake_recipe>.yaml`, which a bake without a recipe, and one on a schedule, is by."""
    bake_schedule: str
    """When to bake it, as EventBridge writes it (`rate(7 days)`, `cron(...)`), or nothing."""
    look_seconds: int
    """How long a workflow waits for an event before it looks by itself: what a lost one costs."""
    volume_initialization_rate: int
    """MiB a second, the most at which EBS is asked to fetch a new root disk from its snapshot where that is worth its
    charge; 0: never."""
    keep_images: int
    """How many images of every family stay, the newest, ..."""
    keep_days: int
    """... and all that are younger than this."""
    policy: Policy
    """When patrol calls a host idle, and what it does then; what is not given is the default."""
    monthly_dollars: float
    """What hosts may cost in a month before new runs are refused; 0: no budget."""

    @property
    def yard(self) -> str:
        return self.prefix.lower()

    @property
    def image_parameter(self) -> str:
        return f"/{self.yard}/image"

    @property
    def recipe_key(self) -> str:
        """Where the yard's own recipe is in the bucket, and in this repository."""
        return f"images/{self.bake_recipe}.yaml"

    @property
    def previous_image_parameter(self) -> str:
        return f"/{self.yard}/image/previous"

    @classmethod
    def of(cls, scope: Construct) -> "YardSettings":
        """The settings of the app that `scope` belongs to. Raises ValueError naming the context key at fault."""
        context = {
            **DEFAULTS,
            **{key: scope.node.try_get_context(key) for key in DEFAULTS if _given(scope, key)},
        }
        return cls(
            prefix=_word(context, "yard", *NAME),
            private=_flag(context, "private"),
            zones=_zones(context),
            disposable=_flag(context, "disposable"),
            notify=str(context["notify"]),
            base_image_parameter=str(context["base_image_parameter"]),
            bake_recipe=_word(context, "bake_recipe", *RECIPE),
            bake_schedule=_schedule(context),
            look_seconds=int(_word(context, "look_seconds", *COUNT)),
            volume_initialization_rate=int(_word(context, "volume_initialization_rate", *RATE)),
            keep_images=int(_word(context, "keep_images", *COUNT)),
            keep_days=int(_word(context, "keep_days", *COUNT)),
            policy=_policy(context),
            monthly_dollars=float(_word(context, "monthly_dollars", *DOLLARS)),
        )


DEFAULTS: dict[str, object] = {
    "yard": "Trainyard",
    "private": False,
    "zones": "",
    "disposable": False,
    "notify": "",
    "base_image_parameter": (
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    ),
    "bake_recipe": "gpu",
    "bake_schedule": "",
    "look_seconds": 600,
    "volume_initialization_rate": 300,
    "keep_images": 3,
    "keep_days": 14,
    "policy": {},
    "monthly_dollars": 0,
}


NAME = (
    r"[A-Z][A-Za-z0-9]{0,19}",
    "a yard is named by a capital letter and up to 19 letters or digits, like Trainyard",
)
RECIPE = r"[a-z][a-z0-9-]{0,29}", "say the name of a recipe under images/, like gpu"
ZONE = r"[a-z]+(-[a-z0-9]+)+"
COUNT = r"0*[1-9]\d*", "say a whole number above zero"
RATE = r"0*(0|100|200|300)", "say 100, 200 or 300 MiB a second, or 0"
DOLLARS = r"\d{1,9}(\.\d{1,2})?", "say dollars, like 500 or 99.50; 0 for none"


def _word(context: dict[str, object], key: str, pattern: str, say: str) -> str:
    word = str(context[key])
    if not re.fullmatch(pattern, word):
        raise ValueError(f"context {key}={word!r}: {say}")
    return word


def _given(scope: Construct, key: str) -> bool:
    return scope.node.try_get_context(key) is not None


def _flag(context: dict[str, object], key: str) -> bool:
    word = str(context[key]).lower()
    if word not in ("true", "false"):
        raise ValueError(f"context {key}={word!r}: say true or false")
    return word == "true"


def _zones(context: dict[str, object]) -> tuple[str, ...]:
    word = str(context["zones"])
    zones = tuple(zone.strip() for zone in word.split(",")) if word.strip() else ()
    if not all(re.fullmatch(ZONE, zone) for zone in zones) or len(set(zones)) < len(zones):
        raise ValueError(
            f"context zones={word!r}: say different zones, like us-east-1a,us-east-1b, or nothing"
        )
    return zones


def _schedule(context: dict[str, object]) -> str:
    word = str(context["bake_schedule"]).strip()
    if word and not re.fullmatch(r"(rate|cron)\(.+\)", word):
        raise ValueError(f"context bake_schedule={word!r}: say rate(7 days), cron(0 3 ? * SUN *) or nothing")
    return word


def _policy(context: dict[str, object]) -> Policy:
    """A mapping in cdk.json, JSON on the command line."""
    given = context["policy"]
    try:
        given = json.loads(given) if isinstance(given, str) else given
    except ValueError as error:
        raise ValueError(f"context policy: {shown(given)} is no JSON: {error}") from error
    found = policy.of_mapping(given, path="policy")
    if isinstance(found, InputFaults):
        raise ValueError(f"context {'; '.join(map(str, found.faults))}")  # noqa: TRY004 - of its value, not of its type
    return found
