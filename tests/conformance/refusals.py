"""Errors: each recorded error that a row of tests/contract/refusals or the error's own words explain, in both models.

A recording has no request. A row is found by code, status and words, and makes the call. An error that quotes the
refused value is replayed with this value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.conformance import replay, simulated
from tests.conformance.clients import Clients
from tests.conformance.likeness import same_words
from tests.conformance.recordings import Oracle, UnreadableError, read
from tests.conformance.result import Result, Verdict
from tests.contract.refusable import named_by
from tests.contract.refused import Refused, table

Answer = tuple[str, int | None, str]
"""Code, status and message. The code is empty for an accepted call."""
Origin = str
"""The file, the test and the step of a recorded error."""
REASONS = Path(__file__).with_name("unused.yaml")
WITHOUT_ROW = "no row yet"
SERVICES = {"lambda_": "lambda", "monitoring": "cloudwatch", "states": "stepfunctions"}
"""Our names of services whose folders or files have others."""
FILE = re.compile(r"(?P<service>[a-z0-9-]+)\.[A-Z]\w+_\d+")
RAISED = re.compile(r"An error occurred \(\w+\) when calling the \w+ operation: ?(.*)", re.DOTALL)
NUMBERED = re.compile(r"Request ID: [\w#-]+")
PLACE = re.compile(r"\n at \[Source: .*\]", re.DOTALL)
"""The place in a JSON text, which no program reads."""
IN_PATTERNS = "/exception_message"
"""The step of an event pattern, whose words `patterns` compares."""


def run(oracle: Oracle, clients: Clients) -> Iterator[Result]:
    """Yield a result for each confirmed row and each replayed error, and one for each error without a call."""
    recorded = _recorded(oracle)
    named = named_by(clients.of)
    reasons = {
        service: {re.compile(pattern): why for pattern, why in rows.items()}
        for service, rows in yaml.safe_load(REASONS.read_text()).items()
    }
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
        for error in sorted(left, key=str):
            why = next(
                (why for words, why in reasons.get(service, {}).items() if _names(words, error, errors)), ""
            )
            yield from _replayed(service, error, why, clients, named)


def _names(words: re.Pattern[str], error: Answer, origins: Mapping[Answer, Origin]) -> bool:
    return bool(words.search(f"{origins[error]} {error[0]} {error[2]}"))


def _replayed(
    service: str, error: Answer, why: str, clients: Clients, named: Mapping[str, Any]
) -> Iterator[Result]:
    """Compare the calls that the error's words describe. The best answer counts, because the operation is unknown."""
    code, _, message = error
    case = f"{service}: {code} {message[:80]}".strip()
    if why:
        yield Result("errors", service, "local cloud", case, Verdict.UNUSED, why)
        return
    exact, loose = (partial(_same, form, message) for form in (replay.without_values, replay.without_lists))
    foreign = replay.is_of_another(service, message, exact)
    requests = list(replay.calls(service, message, exact, named))
    if not requests and not foreign:
        requests = list(replay.calls(service, message, loose, named))
    calls = [Refused(service, name, case, request, ("", 0, "")) for name, request in requests]
    if not calls:
        why = "the operation is not called by a yard" if foreign else WITHOUT_ROW
        yield Result("errors", service, "local cloud", case, Verdict.UNUSED, why)
    for model in ("local cloud", "simulator") if calls else ():
        found = [_answer(model, each, clients, named) for each in calls]
        answers = [each for each in found if each is not None]
        verdicts = {_verdict(error, each): each for each in answers}
        best = next((each for each in ORDER if each in verdicts), None)
        if best is not None:
            difference = "" if best is Verdict.SAME else f"{verdicts[best]}, AWS {error}"[:600]
            yield Result("errors", service, model, case, best, difference)


def _same(form: Callable[[str], str], recorded: str, ours: str) -> bool:
    return _same_words(form(recorded), form(ours))


ORDER = (Verdict.SAME, Verdict.COSMETIC, Verdict.WRONG, Verdict.FORGIVES)


def _answer(model: str, row: Refused, clients: Clients, named: Mapping[str, Any]) -> Answer | None:
    return (
        row.answer(clients.of(row.service), named) if model == "local cloud" else simulated.answer(row, named)
    )


def _results(row: Refused, expected: Answer, clients: Clients, named: Mapping[str, Any]) -> Iterator[Result]:
    for model in ("local cloud", "simulator"):
        answer = _answer(model, row, clients, named)
        if answer is not None:
            verdict = _verdict(expected, answer)
            difference = "" if verdict is Verdict.SAME else f"{answer}, AWS {expected}"[:600]
            yield Result("errors", row.service, model, row.key, verdict, difference)


def _recorded(oracle: Oracle) -> dict[str, dict[Answer, Origin]]:
    """Return all errors by service, each with the place of its first recording."""
    found: dict[str, dict[Answer, Origin]] = defaultdict(dict)
    root = oracle.folder / "localstack"
    for folder in sorted(each.name for each in root.iterdir() if each.is_dir()):
        for recording in oracle.of(folder):
            where = f"{recording.file.name.partition('.')[0]}::{recording.test}"
            for error, step in _errors(recording.content):
                if not step.endswith(IN_PATTERNS):
                    found[SERVICES.get(folder, folder)].setdefault(error, f"{where}::{step}")
    for file in sorted((oracle.folder / "custodian").rglob("*.json")):
        name = FILE.fullmatch(file.stem)
        try:
            content = read(file) if name else None
        except UnreadableError as error:
            print(error)
            continue
        if name and isinstance(content, dict) and int(content.get("status_code") or 0) >= 400:
            service = SERVICES.get(name["service"], name["service"])
            for each, _ in _errors(content.get("data")):
                found[service].setdefault(each, f"custodian {file.parent.name}/{file.stem}")
    return found


def _errors(value: Any, step: str = "") -> Iterator[tuple[Answer, str]]:
    if not isinstance(value, dict):
        for each in value if isinstance(value, list) else ():
            yield from _errors(each, step)
        return
    error = value.get("Error")
    if isinstance(error, dict) and isinstance(error.get("Code"), str):
        status = (value.get("ResponseMetadata") or {}).get("HTTPStatusCode")
        yield (error["Code"], status, str(error.get("Message") or "")), step
    elif raised := RAISED.fullmatch(str(value.get("exception_value"))):
        yield (str(value.get("exception_typename")), None, raised[1]), step
    for name, each in value.items():
        yield from _errors(each, f"{step}/{name}" if step else str(name))


def _verdict(wanted: Answer, ours: Answer) -> Verdict:
    if not ours[0]:
        return Verdict.FORGIVES
    if ours[0] != wanted[0] or wanted[1] not in (None, ours[1]):
        return Verdict.WRONG
    return Verdict.SAME if _same_words(wanted[2], ours[2]) else Verdict.COSMETIC


def _same_words(wanted: str, ours: str) -> bool:
    """Return True if the words are the same, or differ only in one name that the request gave."""
    one, other = (PLACE.sub("", NUMBERED.sub("Request ID: #", each.strip())) for each in (wanted, ours))
    if same_words(one, other):
        return True
    pairs = list(zip(one.split(), other.split(), strict=False))
    return len(one.split()) == len(other.split()) and sum(not same_words(a, b) for a, b in pairs) <= 1
