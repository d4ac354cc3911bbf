"""What CloudWatch is told of the yard: few metrics, each of which costs money in every hour in which it is told."""

from enum import StrEnum

NAMESPACE = "Trainyard"


class Metric(StrEnum):
    """The dimension `service` is the yard; LaunchesRefused has `kind`, too: a RefusalKind."""

    HOSTS_LAUNCHED = "HostsLaunched"
    LAUNCHES_REFUSED = "LaunchesRefused"  # one for each pool that was asked in vain
    RECOVERIES = "Recoveries"  # attempts that went on after one that had ended
    SECONDS_LOST = (
        "SecondsLost"  # of a run that is over: from an attempt's end until the next one's program ran
    )
    DOLLARS = "Dollars"  # what hosts have cost since the pass of patrol before
    RUNS_FAILED = "RunsFailed"  # of any workflow, neither by their users' fault nor for missing capacity
    RUNS_CUT_SHORT = "RunsCutShort"  # over before they could conclude
    FORGED_SIGNALS = "ForgedSignals"  # a host spoke for another, or of a run that is not its own
    FUNCTION_FAILURES = "FunctionFailures"  # through the yard's own fault: a bug, a permission, its set-up


UNITS = {Metric.SECONDS_LOST: "Seconds", Metric.DOLLARS: "None"}
"""CloudWatch's; of all else Count."""
