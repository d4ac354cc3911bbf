"""CPUUtilization in CloudWatch's namespace AWS/EC2, which EC2 publishes for every instance.

As in basic monitoring, the period is five minutes and no agent is involved, so frozen and disconnected hosts have the
metric, too. One busy thread counts as one vCPU of the instance. Several threads still count as one, because this
machine has fewer processors than its hosts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ministack.core.responses import request_scope

from localcloud.base.background import in_background
from localcloud.base.context import Context
from localcloud.machine.hypervisor import Hypervisor
from localcloud.machine.hypervisor.usage import Usage, busy
from localcloud.services.cloudwatch import metrics as cloudwatch

log = logging.getLogger(__name__)

NAMESPACE, METRIC = "AWS/EC2", "CPUUtilization"


def install(context: Context, hypervisor: Hypervisor) -> None:
    """Start the publishing thread."""
    in_background("instance-metrics", lambda: _publish_forever(context, hypervisor))


def _publish_forever(context: Context, hypervisor: Hypervisor) -> None:
    """Publish at the end of each period, with the time of its start."""
    before: Mapping[str, Usage] = {}
    period = context.settings.metrics.instance_seconds
    while True:
        begin = time.time() // period * period
        time.sleep(begin + period - time.time())
        try:
            after = hypervisor.usage()
            _publish(context, hypervisor, before, after, begin)
            before = after
        except Exception:  # one failed measurement must not stop the thread
            log.exception("CPUUtilization was not published")


def _publish(
    context: Context,
    hypervisor: Hypervisor,
    before: Mapping[str, Usage],
    after: Mapping[str, Usage],
    begin: float,
) -> None:
    for host, machine in hypervisor.running().items():
        share = busy(before[host], after[host]) if host in before and host in after else None
        if share is None:
            continue
        percent = round(100 * share / machine.vcpus, 4)
        with request_scope(context.account, machine.region):
            cloudwatch.record(NAMESPACE, METRIC, percent, "Percent", {"InstanceId": host}, at=begin)
