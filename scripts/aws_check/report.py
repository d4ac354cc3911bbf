"""The report of the checks, and the answers of AWS in the usual form of recordings: IDs are numbered."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scripts.aws_check.check import Answer, Check, Finding

IDS = {
    "instance-id": r"\bi-[0-9a-f]{8,17}\b",
    "image-id": r"\bami-[0-9a-f]{8,17}\b",
    "resource": r"\b(?:vol|subnet|vpc|eni|sg|lt|fleet|sir|r|snap)-[0-9a-f-]{8,36}\b",
    "unique-id": r"\b(?:AROA|AIDA|AKIA|ASIA|ANPA)[A-Z0-9]{8,}\b",
    "uuid": r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
    "name": r"\btrainyard-check-[0-9a-f]{12}\b",
    "address": r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
    "mail": r"[\w.+-]+@[\w-]+\.[\w.]+",
}
OMITTED_KEYS = ("HTTPHeaders", "RequestId", "HostId", "RetryAttempts", "UserId", "Owner", "Grants")


def write(
    folder: Path,
    findings: Iterable[tuple[Check, Finding]],
    recordings: Mapping[str, Mapping[str, Answer]],
    *,
    account: str,
    region: str,
    endpoint: str | None,
) -> None:
    """Write report.md and recordings.json. Neither names the account, a person or an address."""
    folder.mkdir(parents=True, exist_ok=True)
    where = "the local cloud" if endpoint else f"AWS, {region}"
    lines = [
        "# What was observed",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {where}",
        "",
        "| check | assumption | verdict | observed |",
        "|---|---|---|---|",
        *(
            f"| {check.name} | {check.assumption} | {finding.verdict} | {finding.seen.replace('|', ' ')} |"
            for check, finding in findings
        ),
    ]
    (folder / "report.md").write_text(redact("\n".join(lines) + "\n", account, region))
    document = {
        f"aws-check::{name}": {
            "recorded-date": f"{datetime.now(UTC):%d-%m-%Y, %H:%M:%S}",
            "recorded-content": _plain(answers),
        }
        for name, answers in recordings.items()
    }
    (folder / "recordings.json").write_text(
        redact(json.dumps(document, indent=2, default=str), account, region)
    )


def redact(text: str, account: str, region: str) -> str:
    """Return the text without account, region, ids, addresses and names. Each id becomes `<kind:number>`."""
    text = text.replace(account, "111111111111").replace(region, "<region>")
    for kind, pattern in IDS.items():
        numbers = {each: number for number, each in enumerate(dict.fromkeys(re.findall(pattern, text)), 1)}
        for each in sorted(numbers, key=len, reverse=True):
            text = text.replace(each, f"<{kind}:{numbers[each]}>")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items() if name not in OMITTED_KEYS}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return (
        "datetime"
        if isinstance(value, datetime)
        else value
        if isinstance(value, int | float | bool | str | None)
        else str(value)
    )
