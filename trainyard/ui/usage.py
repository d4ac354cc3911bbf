"""The charts of hosts, as the page draws them: a line for each host, or the highest, median and lowest of many."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from trainyard.client.runs.usage import Usage

MOST_LINES = 12
"""A chart of more lines shows the highest, median and lowest value of each time."""
DIGITS = 2


def charts_of(usage: Sequence[Usage]) -> list[dict[str, Any]]:
    """Return a chart for each measure."""
    return [
        {
            "title": title_of(each),
            "x": each.times,
            "series": _summary(each) if len(each.hosts) > MOST_LINES else _lines(each, each.hosts),
            "note": _note(each) if len(each.hosts) > MOST_LINES else "",
        }
        for each in usage
    ]


def hosts_of(usage: Sequence[Usage]) -> list[str]:
    """Return the hosts whose own lines can be chosen; none if all charts show them."""
    if all(len(each.hosts) <= MOST_LINES for each in usage):
        return []
    return list(dict.fromkeys(_host_of(label) for each in usage for label in each.hosts))


def own_charts(usage: Sequence[Usage], host: str) -> list[dict[str, Any]]:
    """Return the lines of one host, or of its GPUs, for each chart of many lines."""
    return [
        {
            "title": title_of(each),
            "x": each.times,
            "series": _lines(each, [label for label in each.hosts if _host_of(label) == host]),
        }
        for each in usage
        if len(each.hosts) > MOST_LINES
    ]


def title_of(usage: Usage) -> str:
    return f"{usage.measure.title}, {usage.measure.unit}"


def _host_of(label: str) -> str:
    """Return the host of a line: `worker 0` of `worker 0, GPU 3`."""
    return label.partition(", GPU ")[0]


def _lines(usage: Usage, labels: Sequence[str] | dict[str, Any]) -> list[dict[str, Any]]:
    return [{"label": label, "y": usage.hosts[label]} for label in labels]


def _summary(usage: Usage) -> list[dict[str, Any]]:
    """Return the highest, median and lowest value at each time."""
    known = [
        [value for value in values if value is not None] for values in zip(*usage.hosts.values(), strict=True)
    ]
    return [
        {"label": label, "y": [round(of(values), DIGITS) if values else None for values in known]}
        for label, of in (("highest", max), ("median", median), ("lowest", min))
    ]


def _note(usage: Usage) -> str:
    """Return how many lines there are, and which hosts are the highest and the lowest on average."""
    means = {
        label: sum(known) / len(known)
        for label, values in usage.hosts.items()
        if (known := [value for value in values if value is not None])
    }
    highest, lowest = max(means, key=lambda label: means[label]), min(means, key=lambda label: means[label])
    lines = len(usage.hosts)
    what = f"{lines} GPUs" if any(", GPU " in label for label in usage.hosts) else f"{lines} hosts"
    return f"{what}. On average, {highest} has the highest values, and {lowest} the lowest."
