"""The metrics of predictions from CloudWatch, for many versions in one call."""

from collections.abc import Collection
from datetime import datetime

from lambdas.aws.calls import list_items
from trainyard.core.model.prediction_metrics import MOST_VERSIONS, Figures, Key, figures_of, request_of


def read(yard: str, asked: Collection[Key], now: datetime) -> dict[Key, Figures]:
    """Return the figures of each version from its start until now."""
    ordered = sorted(set(asked))
    found: dict[Key, Figures] = {}
    for first in range(0, len(ordered), MOST_VERSIONS):
        some = ordered[first : first + MOST_VERSIONS]
        request = request_of(yard, some, now)
        found |= figures_of(some, list_items("cloudwatch", "get_metric_data", "MetricDataResults", **request))
    return found
