"""The yard's own metrics, as any stack may look at them."""

from aws_cdk import aws_cloudwatch as cloudwatch

from trainyard.core.model.yard.metrics import NAMESPACE, Metric


def measured(
    yard: str, metric: Metric, *, statistic: str = "Sum", kind: str | None = None
) -> cloudwatch.Metric:
    """Over five minutes; of LaunchesRefused those of one `kind`."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=metric.value,
        dimensions_map={"service": yard} | ({"kind": kind} if kind else {}),
        statistic=statistic,
        label=kind,
    )
