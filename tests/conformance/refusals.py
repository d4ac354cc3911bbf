"""Errors: each recorded error that a row of tests/contract/refusals explains, against both models.

A recording has no request, so a row is found by code, status and words. It makes the call on both models.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.conformance import simulated
from tests.conformance.clients import Clients
from tests.conformance.likeness import same_words
from tests.conformance.recordings import Oracle, UnreadableError, read
from tests.conformance.result import Result, Verdict
from tests.contract.refusable import named_by
from tests.contract.refused import Refused, table

Answer = tuple[str, int | None, str]
"""Code, status and message. The code is empty for an accepted call."""
SERVICES = {"lambda_": "lambda", "monitoring": "cloudwatch", "states": "stepfunctions"}
"""Our names of services whose folders or files have others."""
FILE = re.compile(r"(?P<service>[a-z0-9-]+)\.[A-Z]\w+_\d+")
RAISED = re.compile(r"An error occurred \(\w+\) when calling the \w+ operation: ?(.*)", re.DOTALL)
NUMBERED = re.compile(r"Request ID: [\w-]+")


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Yield a result for each row that a recording confirms, and one for each error without a row."""
    recorded = _recorded(oracle)
    named = named_by(clients.of)
    rows = defaultdict(list)
    for row in table():
        rows[row.service].append(row)
    for service, errors in sorted(recorded.items()):
        left = set(errors)
        for row in rows[service]:
            expected = row.expected(named)
            alike = {each for each in errors if _verdict(each, expected) is Verdict.SAME}
            left -= alike
            if alike:
                yield from _results(row, expected, clients, named)
        for code, _, message in sorted(left, key=str):
            case = f"{service}: {code} {message[:80]}".strip()
            yield Result("errors", service, "local cloud", case, Verdict.UNUSED)


def _results(row: Refused, expected: Answer, clients: Clients, named: Mapping[str, Any]) -> Iterator[Result]:
    answers: dict[str, Answer] = {"local cloud": row.answer(clients.of(row.service), named)}
    if (ours := simulated.answer(row, named)) is not None:
        answers["simulator"] = ours
    for model, answer in answers.items():
        verdict = _verdict(expected, answer)
        difference = "" if verdict is Verdict.SAME else f"{answer}, AWS {expected}"[:600]
        yield Result("errors", row.service, model, row.key, verdict, difference)


def _recorded(oracle: Oracle) -> dict[str, set[Answer]]:
    """Return all errors by service."""
    found: dict[str, set[Answer]] = defaultdict(set)
    root = oracle.folder / "localstack"
    for folder in sorted(each.name for each in root.iterdir() if each.is_dir()):
        for recording in oracle.of(folder):
            found[SERVICES.get(folder, folder)].update(_errors(recording.content))
    for file in sorted((oracle.folder / "custodian").rglob("*.json")):
        name = FILE.fullmatch(file.stem)
        try:
            content = read(file) if name else None
        except UnreadableError as error:
            print(error)
            continue
        if name and isinstance(content, dict) and int(content.get("status_code") or 0) >= 400:
            service = SERVICES.get(name["service"], name["service"])
            found[service].update(_errors(content.get("data")))
    return found


def _errors(value: Any) -> Iterator[Answer]:
    if not isinstance(value, dict):
        for each in value if isinstance(value, list) else ():
            yield from _errors(each)
        return
    error = value.get("Error")
    if isinstance(error, dict) and isinstance(error.get("Code"), str):
        status = (value.get("ResponseMetadata") or {}).get("HTTPStatusCode")
        yield error["Code"], status, str(error.get("Message") or "")
    elif raised := RAISED.fullmatch(str(value.get("exception_value"))):
        yield str(value.get("exception_typename")), None, raised[1]
    for each in value.values():
        yield from _errors(each)


def _verdict(wanted: Answer, ours: Answer) -> Verdict:
    if not ours[0]:
        return Verdict.FORGIVES
    if ours[0] != wanted[0] or wanted[1] not in (None, ours[1]):
        return Verdict.WRONG
    one, other = (NUMBERED.sub("Request ID: #", each[2].strip()) for each in (wanted, ours))
    return Verdict.SAME if same_words(one, other) or _same_but_for_values(one, other) else Verdict.COSMETIC


def _same_but_for_values(wanted: str, ours: str) -> bool:
    """Return True if the words differ in one name that the request gave."""
    one, other = wanted.split(), ours.split()
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) <= 1
