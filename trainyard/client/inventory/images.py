"""The images of a yard, as EC2 describes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from trainyard.client.errors import ImagesRetained
from trainyard.command_line import command_line
from trainyard.protocol.tags import PREFIX, Tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainyard.client.deployment import Deployment
    from trainyard.client.yard import Yard


@dataclass(frozen=True)
class Image:
    """One image. `standing` is `current`, `previous` or empty; `age` is in seconds; `gib` is the size of its disk."""

    id: str
    name: str
    kind: str
    family: str
    state: str
    standing: str
    created: datetime
    age: float
    gib: float
    run: str
    parent: str
    driver: str
    cuda: str
    tensorflow: str
    tests: str
    software: str

    @classmethod
    def of(cls, described: Mapping[str, Any], standing: str, now: datetime) -> Self:
        """Read an image from DescribeImages."""
        tags = {tag["Key"].removeprefix(PREFIX): tag["Value"] for tag in described.get("Tags", [])}
        created = datetime.fromisoformat(described["CreationDate"])
        disks = [
            each["Ebs"].get("VolumeSize", 0) for each in described["BlockDeviceMappings"] if "Ebs" in each
        ]
        words = ("kind", "family", "run", "parent", "driver", "cuda", "tensorflow", "tests", "software")
        return cls(
            id=described["ImageId"],
            name=described.get("Name", ""),
            state=described["State"],
            standing=standing,
            created=created,
            age=max((now - created).total_seconds(), 0.0),
            gib=float(sum(disks)),
            **{word: tags.get(word, "") for word in words},
        )


def list_images(yard: Deployment) -> list[Image]:
    """Return all images, the newest first."""
    standing = {yard.image(previous=True): "previous", yard.image(): "current"}
    filters = [{"Name": f"tag:{Tag.YARD}", "Values": [yard.name.lower()]}]
    pages = yard.session.client("ec2").get_paginator("describe_images")
    found = [
        Image.of(image, standing.get(image["ImageId"], ""), datetime.now(UTC))
        for page in pages.paginate(Owners=["self"], Filters=filters)
        for image in page["Images"]
    ]
    return sorted(found, key=lambda image: image.created, reverse=True)


def remove(yard: Yard, ids: Sequence[str]) -> str:
    """Delete these images with their snapshots, or none of them, and return the result as a sentence. Raise ImagesKept
    with the reasons."""
    done = yard.start("retire", {"images": [*ids]}).wait().execution
    if done.status == "SUCCEEDED":
        return str(json.loads(done.output)["reason"])
    raise ImagesRetained(
        done.cause or done.status,
        "hosts may need these images, and each costs what its disk holds",
        f"{command_line('image', 'ls')} lists them; name only images that are not in use",
    )
