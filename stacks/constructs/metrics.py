"""The yard's own metrics, for any stack."""

from aws_cdk import aws_cloudwatch as cloudwatch

from trainyard.core.model.yard.metrics import NAMESPACE, Metric


def yard_metric(
    yard: str, metric: Metric, *, statistic: str = "Sum", kind: str | None = None
) -> cloudwatch.Metric:
    """Return the metric over five minutes; for LaunchesRefused of one `kind`."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=metric.value,
        dimensions_map={"service": yard} | ({"kind": kind} if kind else {}),
        statistic=statistic,
        label=kind,
    )
