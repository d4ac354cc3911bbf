"""AWS::SSM::Document for ministack's CloudFormation."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from localcloud.services.ssm.document import SsmError
from localcloud.services.ssm.documents import Documents

Properties = dict[str, Any]
Created = tuple[str, dict[str, Any]]


def resource_handler(documents: Documents) -> dict[str, Any]:
    """Return create, update and delete for ministack's table of resource types."""

    def create(logical_id: str, properties: Properties, stack_name: str) -> Created:
        name = properties.get("Name") or f"{stack_name}-{logical_id}-{uuid.uuid4().hex[:12]}"
        documents.create(
            name,
            text(properties["Content"]),
            properties.get("DocumentFormat", "JSON"),
            properties.get("DocumentType", "Command"),
            time.time(),
            target_type=properties.get("TargetType"),
            version_name=properties.get("VersionName"),
            tags=tags(properties),
        )
        return name, {"Name": name}

    def update(name: str, old: Properties, new: Properties, stack_name: str, logical_id: str = "") -> Created:
        """Update a document.

        UpdateMethod NewVersion adds a version and makes it the default; Replace creates a new document.
        """
        if old.get("Name") != new.get("Name"):
            return create(logical_id, new, stack_name)
        written_in = new.get("DocumentFormat", "JSON")
        content = text(new["Content"])
        if content != text(old["Content"]):
            if new.get("UpdateMethod", "Replace") == "Replace":
                return replace(name, new, stack_name, logical_id)
            try:
                kept = documents.update(name, content, written_in, time.time(), new.get("VersionName"))
                documents.set_default(name, str(kept.latest.number))
            except SsmError as error:
                if error.code != "DuplicateDocumentContent":
                    raise
                back_to(name, content)
        documents.tag(name, tags(new))
        return name, {"Name": name}

    def back_to(name: str, content: str) -> None:
        """Make the version with this earlier content the default, as in a rollback."""
        kept = documents.get(name)
        earlier = next(version for version in kept.versions if version.content == content)
        documents.set_default(name, str(earlier.number))

    def replace(name: str, properties: Properties, stack_name: str, logical_id: str) -> Created:
        if properties.get("Name"):
            raise ValueError(
                "CloudFormation cannot change a stack when a custom-named resource requires replacing. "
                f"Rename {name}, or set its UpdateMethod to NewVersion."
            )
        return create(logical_id, properties, stack_name)

    def delete(name: str, properties: Properties) -> None:
        try:
            documents.delete(name)
        except SsmError as error:
            if error.code != "InvalidDocument":  # deleted outside the stack, which may continue
                raise

    return {"create": create, "update": update, "delete": delete, "update_with_logical_id": True}


def text(content: Any) -> str:
    """Return the content as text. Templates may give an object."""
    return content if isinstance(content, str) else json.dumps(content, indent=2)


def tags(properties: Properties) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in properties.get("Tags") or []}
