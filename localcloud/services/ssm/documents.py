"""SSM documents of the account and of Amazon, with their versions."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from localcloud.services.ssm.amazon_documents import RUN_SHELL_SCRIPT, SESSION_DOCUMENTS
from localcloud.services.ssm.document import SESSION, Document, SsmError, parse

NAME = re.compile(r"^[a-zA-Z0-9_\-.]{3,128}$")
RESERVED = re.compile(r"^(aws|amazon|amzn|AWS)", re.IGNORECASE)


@dataclass(frozen=True)
class Version:
    number: int
    content: str
    format: str
    created: float
    name: str | None = None

    @property
    def document(self) -> Document:
        return parse(self.content, self.format)

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True)
class StoredDocument:
    """A document with its versions. SendCommand runs the default version unless the request names another."""

    name: str
    type: str
    target_type: str | None
    default: int
    versions: tuple[Version, ...]
    owner: str
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    def version(self, wanted: str | None, named: str | None = None) -> Version:
        match wanted or "$DEFAULT":
            case "$LATEST":
                return self.latest
            case "$DEFAULT" if named is None:
                number = self.default
            case text:
                number = int(text) if text.isdigit() else 0
        for version in self.versions:
            if version.number == number or (named is not None and version.name == named):
                return version
        raise SsmError("InvalidDocumentVersion", f"Document {self.name} has no version {named or wanted}.")


class Documents:
    """All documents of the account. Every method is atomic."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._lock = threading.Lock()
        kinds = {"AWS-RunShellScript": "Command", **dict.fromkeys(SESSION_DOCUMENTS, SESSION)}
        contents = {"AWS-RunShellScript": RUN_SHELL_SCRIPT, **SESSION_DOCUMENTS}
        self._amazon = {
            name: StoredDocument(
                name,
                kinds[name],
                None,
                1,
                (Version(1, json.dumps(content, indent=2), "JSON", 0.0),),
                "Amazon",
            )
            for name, content in contents.items()
        }
        self._own: dict[str, StoredDocument] = {}

    def get(self, name: str) -> StoredDocument:
        """Return a document by name or ARN. Raise InvalidDocument if it does not exist."""
        short = name.rpartition("document/")[2] if name.startswith("arn:") else name
        found = self._own.get(short) or self._amazon.get(short)
        if found is None:
            raise SsmError("InvalidDocument", f"Document with name {name} does not exist.")
        return found

    def find(self, name: str) -> StoredDocument | None:
        """Return one of the account's documents by name, or None."""
        return self._own.get(name)

    def all(self) -> list[StoredDocument]:
        return sorted([*self._own.values(), *self._amazon.values()], key=lambda kept: kept.name)

    def create(
        self,
        name: str,
        content: str,
        written_in: str,
        kind: str,
        now: float,
        *,
        target_type: str | None = None,
        version_name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> StoredDocument:
        if not NAME.match(name):
            raise SsmError("ValidationException", f"Document name {name!r} does not match {NAME.pattern}.")
        if RESERVED.match(name):
            raise SsmError(
                "ValidationException", f"Document name {name!r} begins with a prefix that AWS keeps."
            )
        document = parse(content, written_in)
        if (document.session is not None) is not (kind == SESSION):
            raise SsmError(
                "InvalidDocumentContent",
                f"A document of the type {kind} cannot have schemaVersion {document.schema_version}.",
            )
        version = Version(1, content, written_in, now, version_name)
        kept = StoredDocument(name, kind, target_type, 1, (version,), self._account, dict(tags or {}))
        with self._lock:
            if name in self._own:
                raise SsmError("DocumentAlreadyExists", f"Document with the name {name} already exists.")
            self._own[name] = kept
        return kept

    def update(
        self, name: str, content: str, written_in: str, now: float, version_name: str | None = None
    ) -> StoredDocument:
        """Add a version, which becomes the latest but not the default."""
        parse(content, written_in)
        with self._lock:
            kept = self._find_own(name)
            if any(version.content == content for version in kept.versions):
                raise SsmError(
                    "DuplicateDocumentContent", "The content of the document duplicates another version."
                )
            version = Version(kept.latest.number + 1, content, written_in, now, version_name)
            self._own[kept.name] = replace(kept, versions=(*kept.versions, version))
            return self._own[kept.name]

    def set_default(self, name: str, number: str) -> StoredDocument:
        with self._lock:
            kept = self._find_own(name)
            self._own[kept.name] = replace(kept, default=kept.version(number).number)
            return self._own[kept.name]

    def delete(self, name: str, number: str | None = None) -> None:
        with self._lock:
            kept = self._find_own(name)
            if number is None:
                del self._own[kept.name]
                return
            doomed = kept.version(number)
            if doomed.number == kept.default:
                raise SsmError(
                    "InvalidDocumentOperation", "Default version of the document can't be deleted."
                )
            left = tuple(version for version in kept.versions if version is not doomed)
            self._own[kept.name] = replace(kept, versions=left)

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        with self._lock:
            kept = self._find_own(name)
            self._own[kept.name] = replace(kept, tags=dict(tags))

    def save(self) -> dict[str, StoredDocument]:
        with self._lock:
            return dict(self._own)

    def restore(self, saved: dict[str, StoredDocument]) -> None:
        with self._lock:
            self._own = dict(saved)

    def _find_own(self, name: str) -> StoredDocument:
        kept = self.get(name)
        if kept.name in self._amazon:
            raise SsmError("InvalidDocumentOperation", f"{name} belongs to Amazon and cannot be changed.")
        return kept
