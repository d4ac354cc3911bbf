"""The monthly cost of an idle yard in us-east-1, computed from its templates: the table in docs/runbook.md."""

from tests.infrastructure.assembly import Assembly
from trainyard.core.model.yard.metrics import OF_PREDICTIONS, Metric
from trainyard.protocol.plan import RefusalKind
from trainyard.protocol.storage import GIB_MONTH, Storage

HOURS, PASSES = 730, 43_800
"""Hours and passes of patrol in a month, one pass a minute."""
ALARM, METRIC, DASHBOARD, ENDPOINT_HOUR, LOGGED_GIB = 0.10, 0.30, 3.00, 0.01, 0.50
"""A metric costs only in hours with values. An idle yard publishes one, from patrol."""
FREE_DASHBOARDS, MOST_METRICS = 3, 50
"""Free dashboards of an account, and the metrics that each may have."""
PASS_SECONDS, PASS_GIB, PASS_WRITES, PASS_READS, PASS_KIB = 1.0, 0.5, 4, 6, 2
"""Upper limits for a pass without hosts. Its writes are two transactions."""
GIB_SECOND, REQUEST, WRITE, READ = 0.0000133334, 0.2e-6, 0.625e-6, 0.125e-6
RESTORE_GIB = 0.20
"""Dollars a GiB and month for point-in-time recovery of the ledger."""


def table(yard: Assembly) -> str:
    """Return the table: fixed costs with their sum, then costs for each stored GiB."""
    alarms, boards = (len(yard.resources(f"AWS::CloudWatch::{kind}")) for kind in ("Alarm", "Dashboard"))
    addresses = sum(
        len(each.properties["SubnetIds"])
        for each in yard.resources("AWS::EC2::VPCEndpoint")
        if each.properties["VpcEndpointType"] == "Interface"
    )
    compute = PASSES * (PASS_SECONDS * PASS_GIB * GIB_SECOND + REQUEST)
    ledger = PASSES * (PASS_WRITES * WRITE + PASS_READS * READ)
    logged = PASSES * PASS_KIB / 2**20
    rows = [
        (f"{alarms} alarms, ${ALARM:.2f} each", alarms * ALARM),
        (
            f"the metric `{Metric.DOLLARS}`, ${METRIC:.2f}; {series() - 1} more only in hours with values",
            METRIC,
        ),
        (
            (
                f"{boards} dashboards of up to {MOST_METRICS} metrics; {FREE_DASHBOARDS} of these are free in each "
                f"account, then ${DASHBOARD:.2f} each"
            ),
            0.0,
        ),
        (f"patrol, {PASSES:,} passes of at most {PASS_SECONDS:.0f} s with {PASS_GIB:g} GiB", compute),
        ("patrol's reads and writes of the ledger", ledger),
        (f"patrol's logs, {logged:.2f} GiB, ${LOGGED_GIB:.2f} each", logged * LOGGED_GIB),
        (f"{addresses} addresses of interface endpoints (`private=true`)", addresses * ENDPOINT_HOUR * HOURS),
    ]
    stored = {
        "images: GiB of their snapshots that were ever written": GIB_MONTH[Storage.SNAPSHOT],
        "the bucket": GIB_MONTH[Storage.BUCKET],
        "the ledger, with its backup": GIB_MONTH[Storage.TABLE] + RESTORE_GIB,
        "logs, for `log_days`": GIB_MONTH[Storage.LOGS],
        "disks of stopped hosts": GIB_MONTH[Storage.DISK],
    }
    return "\n".join(
        [
            "| item | dollars a month |",
            "|---|---|",
            *(f"| {item} | {dollars:.2f} |" for item, dollars in rows),
            f"| **total** | **{sum(dollars for _, dollars in rows):.2f}** |",
            *(f"| and for each GiB: {item} | {dollars:.3f} |" for item, dollars in stored.items()),
        ]
    )


def series() -> int:
    """Return the number of metrics of a yard; refused launches count once for each kind."""
    return len(Metric) - len(OF_PREDICTIONS) - 1 + len(RefusalKind)
