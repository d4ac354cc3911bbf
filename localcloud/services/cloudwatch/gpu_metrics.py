"""GPU metrics in CloudWatch, as the agent of a GPU host publishes them on AWS.

Without a GPU, the host's processes take its place. Utilization is the busy share of the interval
(`hypervisor.usage.busy`), and memory is the memory of its processes. A frozen, disconnected or muted host publishes
nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from ministack.core.responses import request_scope

from localcloud.base.background import in_background
from localcloud.base.context import Context
from localcloud.base.injected import Lasting
from localcloud.machine.hypervisor import Hypervisor, Machine
from localcloud.machine.hypervisor.usage import Usage, busy
from localcloud.services.cloudwatch import metrics as cloudwatch

log = logging.getLogger(__name__)

UTILIZATION, MEMORY = "nvidia_smi_utilization_gpu", "nvidia_smi_memory_used"
MEBIBYTE = 1 << 20
EVERY_HOST = "*"

muted_hosts = Lasting()
"""Hosts that publish nothing (EVERY_HOST: all hosts)."""


def install(context: Context, hypervisor: Hypervisor) -> None:
    """Start the publishing thread."""
    in_background("gpu-metrics", lambda: _publish_forever(context, hypervisor))


def measure(before: Mapping[str, Usage], after: Mapping[str, Usage]) -> dict[str, dict[str, float]]:
    """Return percent and MiB by metric name for each host with two measurements since its boot."""
    found = {}
    for host, usage in after.items():
        share = busy(before[host], usage) if host in before else None
        if share is not None:
            found[host] = {
                UTILIZATION: round(100 * share, 2),
                MEMORY: round(usage.memory_bytes / MEBIBYTE, 2),
            }
    return found


def _publish_forever(context: Context, hypervisor: Hypervisor) -> None:
    before: Mapping[str, Usage] = {}
    while True:
        time.sleep(context.settings.metrics.interval_seconds)
        try:
            after = hypervisor.usage()
            able = {
                name: host for name, host in hypervisor.running().items() if not hypervisor.impairments(name)
            }
            _publish(context, able, measure(before, after))
            before = after
        except Exception:  # one failed measurement must not stop the thread
            log.exception("GPU metrics were not published")


def _publish(
    context: Context, machines: Mapping[str, Machine], metrics: Mapping[str, Mapping[str, float]]
) -> None:
    quiet = muted_hosts.active()
    for host, values in metrics.items():
        machine = machines.get(host)
        if machine is None or not machine.gpus or host in quiet or EVERY_HOST in quiet:
            continue
        with request_scope(context.account, machine.region):
            for name, unit in ((UTILIZATION, "Percent"), (MEMORY, "Megabytes")):
                dimensions = {"InstanceId": host}
                cloudwatch.record(context.settings.metrics.namespace, name, values[name], unit, dimensions)
