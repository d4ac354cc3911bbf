"""Run the tests of other projects against the local cloud, and report each failure with its reason.

`make interoperability` runs moto's own tests of EC2 and Systems Manager in server mode, and a playbook for each of
Ansible's EC2 modules, and writes docs/interoperability.md. It exits with 1 if a failure has no reason in
`reasons.yaml`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.local_yard import ROOT, Cloud, port_for
from tests.interoperability import ansible, moto_suite
from tests.interoperability.result import Result, State

BUILD = ROOT / "build" / "interoperability"
REASONS = Path(__file__).with_name("reasons.yaml")
PAGE = ROOT / "docs" / "interoperability.md"
SUITES: dict[str, Callable[[Path, Cloud], list[Result]]] = {"moto": moto_suite.run, "ansible": ansible.run}


@dataclass(frozen=True)
class Reason:
    """The reason of all failures whose name and message match `pattern`."""

    name: str
    why: str
    pattern: re.Pattern[str]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make interoperability", description=__doc__)
    parser.add_argument("suites", nargs="*", choices=[[], *SUITES], help="only these")
    chosen = parser.parse_args(argv).suites or list(SUITES)
    reasons = [
        Reason(name, each["why"], re.compile("|".join(each["patterns"])))
        for name, each in yaml.safe_load(REASONS.read_text()).items()
    ]
    found: dict[str, list[Result]] = {}
    for name in chosen:
        state = BUILD / name / "state"
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(parents=True)
        cloud = Cloud(state, port_for(0))
        cloud.up()
        try:
            found[name] = SUITES[name](BUILD / name, cloud)
        finally:
            cloud.down()
    unexplained = [
        (each, text) for results in found.values() for each in results
        if (text := _unexplained(each, reasons))
    ]  # fmt: skip
    for each, text in unexplained:
        print(f"{each.name}: {text}")
    if set(chosen) == set(SUITES):
        PAGE.write_text(_page(found, reasons))
    for name, results in found.items():
        print(f"{name}: {_counts(results)}")
    return 1 if unexplained else 0


def _unexplained(result: Result, reasons: Sequence[Reason]) -> str:
    if result.state is not State.FAILED or _reason(result, reasons):
        return ""
    return result.message.splitlines()[0][:300] if result.message else "says nothing"


def _reason(result: Result, reasons: Sequence[Reason]) -> Reason | None:
    text = f"{result.name}\n{result.message}"
    return next((each for each in reasons if each.pattern.search(text)), None)


def _counts(results: Sequence[Result]) -> str:
    counted = Counter(each.state for each in results)
    return ", ".join(f"{counted[state]} {state}" for state in State if counted[state])


def _page(found: dict[str, list[Result]], reasons: Sequence[Reason]) -> str:
    lines: list[Any] = [
        "# Tests of other projects against the local cloud",
        "",
        "`make interoperability` writes this page. It runs moto's own tests of EC2 and Systems Manager, of the version",
        "that the local cloud uses, in server mode and on one account that is never reset. It also runs a playbook",
        "for each of Ansible's EC2 modules (`amazon.aws`), which creates a resource twice, shows it, and removes it",
        "twice; the second time must change nothing. The tables count the results, and give reasons for failures.",
    ]
    for name, results in found.items():
        lines += [
            "",
            f"## {name}: {_counts(results)}",
            "",
            *_by_group(results),
            "",
            *_by_reason(results, reasons),
        ]
    return "\n".join(lines) + "\n"


def _by_group(results: Sequence[Result]) -> list[str]:
    groups = sorted({each.group for each in results})
    rows = ["| module | passed | failed | skipped |", "|---|---:|---:|---:|"]
    for group in groups:
        counted = Counter(each.state for each in results if each.group == group)
        rows.append(f"| {group} | " + " | ".join(str(counted[state]) for state in State) + " |")
    return rows


def _by_reason(results: Sequence[Result], reasons: Sequence[Reason]) -> list[str]:
    failed = [each for each in results if each.state is State.FAILED]
    counted = Counter(reason.name if (reason := _reason(each, reasons)) else "unexplained" for each in failed)
    rows = ["| failed | reason |", "|---:|---|"]
    why = {each.name: each.why for each in reasons} | {"unexplained": "unknown"}
    rows += [f"| {count} | {why[name]} |" for name, count in counted.most_common()]
    return rows


if __name__ == "__main__":
    sys.exit(main())
