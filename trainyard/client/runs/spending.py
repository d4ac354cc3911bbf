"""What runs have cost, added up by what people ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainyard.client.runs.listing import ListedRun


def added(runs: Iterable[ListedRun], by: str) -> list[tuple[str, int, float]]:
    """What, how many runs and dollars, the dearest first; days in their order."""
    sums: dict[str, tuple[int, float]] = {}
    for run in runs:
        for of in _of(run, by):
            count, total = sums.get(of, (0, 0.0))
            sums[of] = count + 1, total + (run.dollars or 0.0)
    parts = [(of, count, total) for of, (count, total) in sums.items()]
    return sorted(parts) if by == "day" else sorted(parts, key=lambda part: -part[2])


def _of(run: ListedRun, by: str) -> Iterator[str]:
    match by:
        case "job":
            yield run.name or run.id
        case "user":
            yield run.submitter or "unknown"
        case "day":
            yield f"{run.created:%Y-%m-%d}"
        case label:
            yield run.labels.get(label, "none")
