"""API actions of SSM documents."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from localcloud.services.ssm.answers import Json, page, remove_empty
from localcloud.services.ssm.document import Document, SsmError, join_values
from localcloud.services.ssm.documents import Documents, StoredDocument, Version


@dataclass(frozen=True)
class DocumentActions:
    account: str
    documents: Documents

    def actions(self) -> dict[str, Callable[[Json], Json]]:
        """Return the actions by name."""
        return {
            "CreateDocument": self.create_document,
            "GetDocument": self.get_document,
            "DescribeDocument": self.describe_document,
            "UpdateDocument": self.update_document,
            "UpdateDocumentDefaultVersion": self.update_default_version,
            "ListDocuments": self.list_documents,
            "ListDocumentVersions": self.list_document_versions,
            "DeleteDocument": self.delete_document,
        }

    def create_document(self, request: Json) -> Json:
        kept = self.documents.create(
            request["Name"],
            request["Content"],
            request.get("DocumentFormat", "JSON"),
            request.get("DocumentType", "Command"),
            time.time(),
            target_type=request.get("TargetType"),
            version_name=request.get("VersionName"),
            tags={tag["Key"]: tag["Value"] for tag in request.get("Tags", [])},
        )
        return {"DocumentDescription": describe_version(kept, kept.latest)}

    def get_document(self, request: Json) -> Json:
        kept = self.documents.get(request["Name"])
        version = kept.version(request.get("DocumentVersion"), request.get("VersionName"))
        wanted = request.get("DocumentFormat", version.format)
        return remove_empty(
            {
                "Name": kept.name,
                "CreatedDate": version.created,
                "VersionName": version.name,
                "DocumentVersion": str(version.number),
                "Status": "Active",
                "Content": in_format(version, wanted),
                "DocumentType": kept.type,
                "DocumentFormat": wanted,
            }
        )

    def describe_document(self, request: Json) -> Json:
        kept = self.documents.get(request["Name"])
        version = kept.version(request.get("DocumentVersion"), request.get("VersionName"))
        return {"Document": describe_version(kept, version)}

    def update_document(self, request: Json) -> Json:
        kept = self.documents.update(
            request["Name"],
            request["Content"],
            request.get("DocumentFormat", "JSON"),
            time.time(),
            request.get("VersionName"),
        )
        return {"DocumentDescription": describe_version(kept, kept.latest)}

    def update_default_version(self, request: Json) -> Json:
        kept = self.documents.set_default(request["Name"], str(request["DocumentVersion"]))
        return {"Description": {"Name": kept.name, "DefaultVersion": str(kept.default)}}

    def list_documents(self, request: Json) -> Json:
        wanted = {one["Key"]: one["Values"] for one in request.get("Filters", [])}
        wanted |= {one["key"]: [one["value"]] for one in request.get("DocumentFilterList", [])}
        found = [kept for kept in self.documents.all() if self._is_wanted(kept, wanted)]
        return page(found, request, "DocumentIdentifiers", document_identifier, 50)

    def list_document_versions(self, request: Json) -> Json:
        kept = self.documents.get(request["Name"])

        def shown(version: Version) -> Json:
            return remove_empty(
                {
                    "Name": kept.name,
                    "DocumentVersion": str(version.number),
                    "VersionName": version.name,
                    "CreatedDate": version.created,
                    "IsDefaultVersion": version.number == kept.default,
                    "DocumentFormat": version.format,
                    "Status": "Active",
                }
            )

        return page(kept.versions[::-1], request, "DocumentVersions", shown, 50)

    def delete_document(self, request: Json) -> Json:
        self.documents.delete(request["Name"], request.get("DocumentVersion"))
        return {}

    def _is_wanted(self, kept: StoredDocument, wanted: dict[str, list[str]]) -> bool:
        owners = {"Self": self.account, "self": self.account, "Amazon": "Amazon"}
        known = {
            "Name": lambda values: any(kept.name.startswith(value) for value in values),
            "Owner": lambda values: any(owners.get(value, value) in (kept.owner, "All") for value in values),
            "DocumentType": lambda values: kept.type in values,
            "PlatformTypes": lambda values: bool(set(values) & set(kept.latest.document.platforms)),
        }
        for key, values in wanted.items():
            if key.startswith("tag:"):
                if kept.tags.get(key[4:]) not in values:
                    return False
            elif key not in known:
                raise SsmError("InvalidFilterKey", f"No filter key {key!r}.")
            elif not known[key](values):
                return False
        return True


def in_format(version: Version, wanted: str) -> str:
    if wanted == version.format:
        return version.content
    import yaml

    content = yaml.safe_load(version.content)
    return (
        json.dumps(content, indent=2) if wanted == "JSON" else str(yaml.safe_dump(content, sort_keys=False))
    )


def document_identifier(kept: StoredDocument) -> Json:
    version = kept.version("$DEFAULT")
    return remove_empty(
        {
            "Name": kept.name,
            "CreatedDate": version.created,
            "Owner": kept.owner,
            "VersionName": version.name,
            "PlatformTypes": version.document.platforms,
            "DocumentVersion": str(version.number),
            "DocumentType": kept.type,
            "SchemaVersion": version.document.schema_version,
            "DocumentFormat": version.format,
            "TargetType": kept.target_type,
            "Tags": [{"Key": key, "Value": value} for key, value in kept.tags.items()],
        }
    )


def describe_version(kept: StoredDocument, version: Version) -> Json:
    document = version.document
    return {
        **document_identifier(kept),
        "CreatedDate": version.created,
        "DocumentVersion": str(version.number),
        "DocumentFormat": version.format,
        "Hash": version.hash,
        "HashType": "Sha256",
        "Status": "Active",
        "Description": document.description,
        "Parameters": shown_parameters(document),
        "LatestVersion": str(kept.latest.number),
        "DefaultVersion": str(kept.default),
    }


def shown_parameters(document: Document) -> list[Json]:
    return [
        remove_empty(
            {
                "Name": parameter.name,
                "Type": "StringList" if parameter.type == "StringList" else "String",
                "Description": parameter.description,
                "DefaultValue": None
                if parameter.default is None
                else join_values(parameter.default, parameter),
            }
        )
        for parameter in document.parameters.values()
    ]
