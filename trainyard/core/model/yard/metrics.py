"""The metrics of the yard in CloudWatch. They are few, because CloudWatch bills each metric by the hour."""

from enum import StrEnum

NAMESPACE = "Trainyard"


class Metric(StrEnum):
    """The names of the metrics. The dimension `service` is the yard. LaunchesRefused also has `kind`, a RefusalKind.
    The metrics of predictions have `model` and `version`."""

    HOSTS_LAUNCHED = "HostsLaunched"
    LAUNCHES_REFUSED = "LaunchesRefused"  # one for each pool that refused
    RECOVERIES = "Recoveries"  # attempts that followed an ended one
    SECONDS_LOST = (
        "SecondsLost"  # from an attempt's end until the next attempt's program ran, once the run has ended
    )
    DOLLARS = "Dollars"  # the cost of hosts since the last pass of patrol
    RUNS_FAILED = "RunsFailed"  # of any workflow, without failures of users' programs and of missing capacity
    RUNS_CUT_SHORT = "RunsCutShort"  # runs that ended before they could conclude
    FORGED_SIGNALS = "ForgedSignals"  # a host sent a signal in the name of another host or of another run
    FUNCTION_FAILURES = "FunctionFailures"  # failures by the yard's own fault: a bug, a permission, its setup
    PREDICTIONS = "Predictions"  # requests to a version, with or without an answer
    ERRORS = "Errors"  # requests that the version did not answer
    MILLISECONDS = "Milliseconds"  # the duration of a request in the function
    DISAGREED = "Disagreed"  # answers of a shadow that differ from the answer that was sent


OF_PREDICTIONS = (Metric.PREDICTIONS, Metric.ERRORS, Metric.MILLISECONDS, Metric.DISAGREED)
"""The metrics with the dimensions `model` and `version`. They exist only for versions with requests, so no dashboard
names them."""
UNITS = {Metric.SECONDS_LOST: "Seconds", Metric.DOLLARS: "None", Metric.MILLISECONDS: "Milliseconds"}
"""The units of CloudWatch. Other metrics have the unit Count."""
