"""The kind of `data.NAME.source`: a folder of a bucket, or a folder of a file system."""

import re
from typing import Any

from trainyard.core.model.job_fields import CONTROL, Uri, is_plain_key
from trainyard.protocol.file_systems import ID, SCHEMES, FileSystemKind
from trainyard.values.fields import whole
from trainyard.values.lazy import dataclass
from trainyard.values.validation import Section, show_value

EXAMPLE = f"{FileSystemKind.EFS}://fs-0123456789abcdef0/team/"


@dataclass(kw_only=True, repr=False, eq=False)
class DataSource(Uri):
    """An S3 URI, or a folder of a file system of Amazon EFS or FSx for Lustre."""

    @property
    def words(self) -> str:
        return f"{super().words}; or a folder of a file system, as in {EXAMPLE} or {FileSystemKind.FSX}://fs-.../"

    def schema(self) -> dict[str, Any]:
        part = rf"(?!\.{{1,2}}/)[^/\\,:{CONTROL}]+"
        folder = whole(rf"(?:{'|'.join(FileSystemKind)})://{ID}/(?:{part}/)*")
        in_s3 = super().schema()
        return in_s3 | {"pattern": f"{in_s3['pattern']}|{folder}"}

    def read_present(self, section: Section, key: str, default: Any) -> Any:
        value = section.values.get(key)
        if not isinstance(value, str) or not value.startswith(SCHEMES):
            return super().read_present(section, key, default)
        problem = _problem(value)
        if problem:
            section.fault(key, f"{show_value(value)} {problem}")
        return default if problem else value


def _problem(value: str) -> str | None:
    scheme, _, rest = value.partition("://")
    name, slash, path = rest.partition("/")
    if not re.fullmatch(ID, name, re.ASCII):
        found = re.match(rf"({ID})\.", name, re.ASCII)
        meant = f'; did you mean "{scheme}://{found[1]}/"?' if found else ""
        return f"does not name a file system by its id, as in {EXAMPLE}{meant}"
    if path and not is_plain_key(path):
        return "has an empty, . or .. part, a backslash or a control character in its path"
    if "," in path or ":" in path:
        return "has a comma or a colon in its path, which the commands that mount it do not accept"
    if not slash or (path and not path.endswith("/")):
        return f"does not end in /; did you mean {show_value(f'{value}/')}?"
    return None
