"""What a person may choose about a yard: CDK context, read once, checked here."""

import re
from dataclasses import dataclass

from constructs import Construct


@dataclass(frozen=True)
class YardSettings:
    """The choices of `cdk.json`, each of which `-c name=value` overrides."""

    prefix: str
    """Prefix of the stacks' names. Its lower case is the yard's name: the tag, the bus, the parameter."""
    private: bool
    """Hosts without public addresses, behind interface endpoints (about $0.01 an hour per endpoint and zone)."""
    disposable: bool
    """For try-outs: destroying the stacks also deletes the bucket (once empty) and the ledger."""
    notify: str
    """Mail address that hears of concluded runs and of alarms, or nothing."""
    builder_instance_type: str
    base_image_parameter: str
    root_gib: int
    keep_images: int

    @property
    def yard(self) -> str:
        return self.prefix.lower()

    @property
    def image_parameter(self) -> str:
        return f"/{self.yard}/image"

    @classmethod
    def of(cls, scope: Construct) -> "YardSettings":
        """The settings of the app that `scope` belongs to. Raises ValueError naming the context key at fault."""
        context = {
            **DEFAULTS,
            **{key: scope.node.try_get_context(key) for key in DEFAULTS if _given(scope, key)},
        }
        prefix = str(context["yard"])
        if not re.fullmatch(r"[A-Z][A-Za-z0-9]{0,19}", prefix):
            raise ValueError(
                f"context yard={prefix!r}: a yard is named by a capital letter and up to 19 letters or digits, "
                "like Trainyard"
            )
        return cls(
            prefix=prefix,
            private=_flag(context, "private"),
            disposable=_flag(context, "disposable"),
            notify=str(context["notify"]),
            builder_instance_type=str(context["builder_instance_type"]),
            base_image_parameter=str(context["base_image_parameter"]),
            root_gib=_count(context, "root_gib"),
            keep_images=_count(context, "keep_images"),
        )


DEFAULTS: dict[str, object] = {
    "yard": "Trainyard",
    "private": False,
    "disposable": False,
    "notify": "",
    "builder_instance_type": "g4dn.xlarge",
    "base_image_parameter": (
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
    ),
    "root_gib": 150,
    "keep_images": 3,
}


def _given(scope: Construct, key: str) -> bool:
    return scope.node.try_get_context(key) is not None


def _flag(context: dict[str, object], key: str) -> bool:
    word = str(context[key]).lower()
    if word not in ("true", "false"):
        raise ValueError(f"context {key}={word!r}: say true or false")
    return word == "true"


def _count(context: dict[str, object], key: str) -> int:
    word = str(context[key])
    if not word.isdigit() or int(word) == 0:
        raise ValueError(f"context {key}={word!r}: say a whole number above zero")
    return int(word)
