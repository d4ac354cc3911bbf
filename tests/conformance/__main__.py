"""Recorded answers of AWS, compared with the local cloud and the simulator.

`make conformance` compares with the recordings in ../shared/oracle (ORACLE=folder for another) and writes
docs/conformance.md. It ends with 1 for a miss that `known.yaml` does not explain. The recordings are not part of this
project.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from scripts.local_yard import ROOT, Cloud, port_for
from tests.conformance import histories, patterns, refusals, shapes, stacks
from tests.conformance.clients import Clients
from tests.conformance.recordings import Oracle
from tests.conformance.result import RED, Result, Verdict

BUILD = ROOT / "build" / "conformance"
KNOWN = Path(__file__).with_name("known.yaml")
PAGE = ROOT / "docs" / "conformance.md"
PARTS: Mapping[str, Callable[[Oracle, Clients], Iterator[Result]]] = {
    "patterns": patterns.run,
    "histories": histories.run,
    "errors": refusals.run,
    "shapes": shapes.run,
    "stacks": stacks.run,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="only these")
    chosen = parser.parse_args(argv).parts or list(PARTS)
    folder = Path(os.environ.get("ORACLE") or ROOT.parent / "shared" / "oracle")
    if not folder.is_dir():
        print(f"no recordings in {folder}: nothing is compared. ORACLE=folder names another folder.")
        return 0
    results = _results(Oracle(folder), chosen)
    known: dict[str, str] = yaml.safe_load(KNOWN.read_text()) or {}
    red = [each for each in results if each.verdict in RED]
    for each in red:
        if each.key not in known:
            print(f"{each.verdict}: {each.key}: {each.difference}")
    _shrink(known, results)
    if set(chosen) == set(PARTS):
        PAGE.write_text(_page(Oracle(folder), results, known))
    for line in _scores(results):
        print(line)
    return 1 if any(each.key not in known for each in red) else 0


def _results(oracle: Oracle, chosen: Sequence[str]) -> list[Result]:
    state = BUILD / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True)
    cloud = Cloud(state, port_for(0))
    cloud.up()
    found: list[Result] = []
    try:
        clients = Clients(cloud.session())
        for part in chosen:
            began = time.monotonic()
            found += PARTS[part](oracle, clients)
            print(f"{part}: {time.monotonic() - began:.0f} s")
    finally:
        cloud.down()
    return found


def _shrink(known: dict[str, str], results: Sequence[Result]) -> None:
    """Remove corrected misses from the file. Nothing is ever added here."""
    corrected = {each.key for each in results if each.verdict not in RED} & set(known)
    if corrected:
        print(f"no misses any more: {', '.join(sorted(corrected))}")
        head = "".join(line for line in KNOWN.read_text().splitlines(keepends=True) if line.startswith("#"))
        left = {key: why for key, why in known.items() if key not in corrected}
        KNOWN.write_text(head + (yaml.safe_dump(left, width=120, sort_keys=True) if left else "{}\n"))


def _scores(results: Sequence[Result]) -> list[str]:
    """Return a line for each part, service and model."""
    groups = sorted({(each.part, each.service, each.model) for each in results})
    lines = [
        "| part | service | model | " + " | ".join(Verdict) + " | score |",
        "|---|---|---|" + "---:|" * 7,
    ]
    for group in groups:
        counted = Counter(each.verdict for each in results if (each.part, each.service, each.model) == group)
        compared = sum(counted.values()) - counted[Verdict.UNUSED]
        good = compared - sum(counted[verdict] for verdict in RED)
        score = f"{100 * good / compared:.1f} %" if compared else ""
        lines.append(
            f"| {' | '.join(group)} | {' | '.join(str(counted[each]) for each in Verdict)} | {score} |"
        )
    return lines


def _unused(results: Sequence[Result]) -> list[str]:
    """Return a line for each reason for which cases are not compared."""
    unused = (each for each in results if each.verdict is Verdict.UNUSED)
    counted = Counter((each.part, f"{each.service}, {each.model}", each.difference) for each in unused)
    return [
        f"| {part} | {where} | {count} | {why} |" for (part, where, why), count in sorted(counted.items())
    ]


def _page(oracle: Oracle, results: Sequence[Result], known: Mapping[str, str]) -> str:
    misses = [each for each in results if each.verdict in (*RED, Verdict.STRICTER)]
    rows = [
        f"| {each.verdict} | {each.key} | {known.get(each.key, 'not looked into yet')} |" for each in misses
    ]
    return "\n".join(
        [
            "# Recorded answers of AWS",
            "",
            "`make conformance` writes this page. Other projects have recorded answers of AWS; the page",
            "counts how often the local cloud and the simulator answer the same. The recordings are not part of this",
            "project, whose own tables and tests contain the facts (`tests/contract/refusals`,",
            "`tests/contract/test_states_language.py`, `tests/unit/localcloud/test_patterns.py`).",
            "",
            f"Recordings: {', '.join(oracle.sources) or 'unnamed'}.",
            "",
            "*forgives*: AWS refuses, we accept. *stricter*: we refuse, AWS accepts. *wrong*: another answer.",
            "*cosmetic*: another wording, which no program reads. *unused*: no yard does this, so it is not compared.",
            "",
            "A recorded error has no request. It is compared if a row of `tests/contract/refusals` has its code,",
            "status and words: the row makes the call. An error that quotes the refused value, pattern, filter or",
            "definition is replayed with it. All others are *unused*, for one of the reasons below",
            "(`tests/conformance/unused.yaml`).",
            "",
            *_scores(results),
            "",
            "Not compared in histories, because no program reads it: "
            + ", ".join(f"`{each}`" for each in sorted(histories.COSMETIC))
            + ".",
            "",
            "## Unused",
            "",
            "| part | service | cases | reason |",
            "|---|---|---:|---|",
            *_unused(results),
            "",
            "## Misses",
            "",
            *(["| kind | case | why |", "|---|---|---|", *rows] if rows else ["None."]),
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
