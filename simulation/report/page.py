"""build/simulation/index.html: a self-contained page with all results and the timeline of each violation."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2

from simulation.cases.case import Case, Finding, Group
from simulation.report import summary
from simulation.timeline import Line, since_begin

TEMPLATE = "page.html.jinja"
MOST_CASES = 40
"""The most cases of one group to list."""
HELD, RECOVERED, ENDED, BROKEN, NOT_MET, UNTRIED = "hrebn."


@dataclass(frozen=True)
class Campaign:
    title: str
    command: str
    commit: str
    when: datetime
    wall_seconds: float
    findings: Sequence[Finding]
    groups: Sequence[Group]
    timelines: Mapping[Case, Sequence[Line]]
    """Timelines of violations: the first of each group, and more up to a limit."""


def write_page(campaign: Campaign, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(campaign))
    return path


def render_page(campaign: Campaign) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["since"] = since_begin
    environment.filters["number"] = lambda number: f"{number:,}"
    worlds = len(campaign.findings)
    return environment.get_template(TEMPLATE).render(
        campaign=campaign,
        worlds=worlds,
        broken=sum(bool(each.violations) for each in campaign.findings),
        recoveries=sum(each.recoveries for each in campaign.findings),
        virtual_hours=sum(each.seconds for each in campaign.findings) / 3600,
        median_cpu=statistics.median(each.cpu for each in campaign.findings) if worlds else 0.0,
        counts=summary.counts(campaign.findings),
        detections=summary.detections(campaign.findings),
        most_cases=MOST_CASES,
        matrices=_script(matrices(campaign.findings)),
    )


def _script(value: Any) -> str:
    """Return JSON that cannot end its script element."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def matrices(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return matrices: fault point by fault for single faults, fault by fault for several faults."""
    single = [each for each in findings if len(each.case.faults) == 1]
    several = [each for each in findings if len(each.case.faults) > 1]
    return [*_table_of_singles(single), *_table_of_pairs(several)]


def _table_of_singles(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], dict[str, dict[str, Finding]]] = {}
    for finding in findings:
        [fault] = finding.case.faults
        points = found.setdefault((finding.case.scenario, str(fault.kind)), {})
        points.setdefault(fault.point, {})[fault.what] = finding
    return [_matrix(scenario, kind, points) for (scenario, kind), points in found.items()]


def _matrix(scenario: str, kind: str, points: Mapping[str, Mapping[str, Finding]]) -> dict[str, Any]:
    whats = list(dict.fromkeys(what for row in points.values() for what in row))
    cells = {point: "".join(_code(row.get(what)) for what in whats) for point, row in points.items()}
    broken = {
        f"{point}: {what}": [f"{each.invariant}: {each.what}" for each in finding.violations]
        for point, row in points.items()
        for what, finding in row.items()
        if finding.violations
    }
    return {"scenario": scenario, "kind": kind, "whats": whats, "rows": list(cells.items()), "broken": broken}


def _code(finding: Finding | None) -> str:
    if finding is None:
        return UNTRIED
    if finding.violations:
        return BROKEN
    if not finding.injected:
        return NOT_MET
    if not finding.succeeded:
        return ENDED
    return RECOVERED if finding.recoveries else HELD


def _table_of_pairs(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Count each pair of faults. A cell is red if any world with both faults broke an invariant."""
    found: dict[str, dict[tuple[str, str], list[Finding]]] = {}
    for finding in findings:
        whats = sorted({f"{fault.kind}: {fault.what}" for fault in finding.case.faults})
        for one in whats:
            for other in whats:
                if one <= other and (one < other or len(whats) == 1):
                    found.setdefault(finding.case.scenario, {}).setdefault((one, other), []).append(finding)
    return [_square(scenario, pairs) for scenario, pairs in found.items()]


def _square(scenario: str, pairs: Mapping[tuple[str, str], Sequence[Finding]]) -> dict[str, Any]:
    whats = sorted({what for pair in pairs for what in pair})
    worst = {pair: min((_code(each) for each in found), key="berhn".index) for pair, found in pairs.items()}
    rows = [
        (one, "".join(worst.get((one, other)) or worst.get((other, one), UNTRIED) for other in whats))
        for one in whats
    ]
    broken = {
        f"{one}: {other}": [
            f"{each.case} · {each.violations[0].invariant}" for each in found if each.violations
        ][:5]
        for (one, other), found in pairs.items()
        if any(each.violations for each in found)
    }
    mirrored = {
        f"{other}: {one}": broken[f"{one}: {other}"] for one, other in pairs if f"{one}: {other}" in broken
    }
    return {"scenario": scenario, "kind": "pairs", "whats": whats, "rows": rows, "broken": mirrored | broken}
