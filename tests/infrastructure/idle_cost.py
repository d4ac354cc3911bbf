"""What a yard costs a month while nothing runs, in us-east-1, from its templates: the table of docs/runbook.md."""

from tests.infrastructure.assembly import Assembly
from trainyard.core.model.yard.metrics import Metric
from trainyard.protocol.plan import RefusalKind
from trainyard.protocol.storage import GIB_MONTH, Storage

HOURS, PASSES = 730, 43_800
"""Of a month; patrol passes once a minute."""
ALARM, METRIC, DASHBOARD, ENDPOINT_HOUR, LOGGED_GIB = 0.10, 0.30, 3.00, 0.01, 0.50
"""A metric costs only in the hours in which it is told: while nothing runs patrol tells one."""
FREE_DASHBOARDS, MOST_METRICS = 3, 50
"""Of each account, and on each of these."""
PASS_SECONDS, PASS_GIB, PASS_WRITES, PASS_READS, PASS_KIB = 1.0, 0.5, 4, 6, 2
"""Of a pass without hosts: its time and memory at most, what two transactions write, what it reads, what it logs."""
GIB_SECOND, REQUEST, WRITE, READ = 0.0000133334, 0.2e-6, 0.625e-6, 0.125e-6
RESTORE_GIB = 0.20
"""Point-in-time recovery of the ledger."""


def table(yard: Assembly) -> str:
    """The rows and their sum, then what is kept, by the GiB."""
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
                f"{boards} dashboards of up to {MOST_METRICS} metrics; {FREE_DASHBOARDS} such of an account are free, "
                f"then ${DASHBOARD:.2f} each"
            ),
            0.0,
        ),
        (f"patrol, {PASSES:,} passes of {PASS_SECONDS:.0f} s at most with {PASS_GIB:g} GiB", compute),
        ("what patrol reads and writes in the ledger", ledger),
        (f"what patrol logs, {logged:.2f} GiB, ${LOGGED_GIB:.2f} each", logged * LOGGED_GIB),
        (f"{addresses} addresses of interface endpoints (`private=true`)", addresses * ENDPOINT_HOUR * HOURS),
    ]
    kept = {
        "images: GiB of their snapshots that were ever written": GIB_MONTH[Storage.SNAPSHOT],
        "the bucket": GIB_MONTH[Storage.BUCKET],
        "the ledger, with its backup": GIB_MONTH[Storage.TABLE] + RESTORE_GIB,
        "logs, for `log_days`": GIB_MONTH[Storage.LOGS],
        "disks of stopped hosts": GIB_MONTH[Storage.DISK],
    }
    return "\n".join(
        [
            "| what | dollars a month |",
            "|---|---|",
            *(f"| {what} | {dollars:.2f} |" for what, dollars in rows),
            f"| **together** | **{sum(dollars for _, dollars in rows):.2f}** |",
            *(f"| and for each GiB: {what} | {dollars:.3f} |" for what, dollars in kept.items()),
        ]
    )


def series() -> int:
    """How many metrics a yard has, each with each of its kinds."""
    return len(Metric) - 1 + len(RefusalKind)
