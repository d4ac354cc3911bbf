"""The tables of refusals: what AWS refuses, by service and operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from botocore.exceptions import ClientError

TABLES = Path(__file__).with_name("refusals")


@dataclass(frozen=True)
class Refused:
    """A refused call with AWS's answer."""

    service: str
    operation: str
    name: str
    request: Mapping[str, Any]
    says: tuple[str, int, str]
    """Code, status and message."""

    @property
    def key(self) -> str:
        return f"{self.service}: {self.name}"

    def expected(self, named: Mapping[str, Any]) -> tuple[str, int, str]:
        code, status, message = self.says
        return code, status, str(filled(message, named))

    def answer(self, client: Any, named: Mapping[str, Any]) -> tuple[str, int, str]:
        """Make the call. Return code, status and message of the refusal, or `("", 200, "")` if it is accepted."""
        try:
            getattr(client, self.operation)(**filled(self.request, named))
        except ClientError as refused:
            error = refused.response["Error"]
            status = refused.response["ResponseMetadata"]["HTTPStatusCode"]
            return str(error["Code"]), int(status), str(error.get("Message", ""))
        return "", 200, ""


def table() -> list[Refused]:
    return [
        Refused(file.stem, operation, name, row.get("with") or {}, tuple(row["says"]))
        for file in sorted(TABLES.glob("*.yaml"))
        for operation, rows in yaml.safe_load(file.read_text()).items()
        for name, row in rows.items()
    ]


def filled(value: Any, named: Mapping[str, Any]) -> Any:
    """Replace each $NAME with the created resource, the longest names first."""
    match value:
        case str() if value in named:
            return named[value]
        case str() if "$" in value:
            for name in sorted(named, key=len, reverse=True):
                if isinstance(named[name], str):
                    value = value.replace(name, named[name])
            return value
        case dict():
            return {key: filled(each, named) for key, each in value.items()}
        case list():
            return [filled(each, named) for each in value]
        case _:
            return value
