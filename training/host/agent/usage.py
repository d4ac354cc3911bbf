"""The use of this host while its program runs: recorded, written to the bucket, and compared with the other hosts."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

from training.host.agent.context import Context
from training.host.errors import HostTrouble
from training.host.health import Fault
from training.host.periodic import Repeat
from training.host.reporting import gpus
from training.host.reporting.progress import Progress
from training.host.use import degraded, driver, limits
from training.host.use.sampling import Sampler
from trainyard.core.model import host_use
from trainyard.core.model.host_use import HostUse
from trainyard.protocol import keys
from trainyard.protocol.cluster import Assignment, Role

SAMPLE_SECONDS = 20.0
SAMPLES_A_WRITE = 3
"""A host writes its file once a minute. The chief's host then reads the files of the other hosts."""
MEBIBYTE = 1 << 20


class Usage:
    """Samples this host from a thread of its own, and passes faults of GPUs to `report`. The chief's host also looks
    for the limit of the program, a slow rank and slow GPUs, and leaves them in `progress` for its signals."""

    def __init__(
        self,
        context: Context,
        progress: Progress,
        find_pids: Callable[[], tuple[int, ...]],
        report: Callable[[Fault], None],
        add_use: Callable[[int, Mapping[str, float]], None],
    ) -> None:
        self._context, self._progress, self._report, self._add_use = context, progress, report, add_use
        self._sampler = Sampler(find_pids, context.paths.waits(context.cluster.attempt))
        self._own = HostUse(
            instance=context.identity.instance,
            role=_name(context.assignment),
            processors=len(os.sched_getaffinity(0)),
            memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MEBIBYTE,
            gpus=0,
            at=[],
            columns={},
        )
        self._others: dict[str, HostUse] = {}
        self._repeat = Repeat("use", lambda _: self._turn(), every=SAMPLE_SECONDS)

    def begin(self) -> None:
        self._sample()
        self._repeat.start()

    def end(self) -> None:
        """Take a last sample. A trouble here ends nothing: a program does not need this record."""
        self._repeat.end()
        if self._sample():
            self._judge()
        try:
            self._write()
        except (HostTrouble, OSError):
            return

    def _turn(self) -> None:
        if not self._sample():
            return
        self._judge()
        if len(self._own.at) % SAMPLES_A_WRITE == 0:
            self._write()
            if self._context.assignment.is_chief:
                self._read_others()

    def _sample(self) -> bool:
        if not self._own.gpus and shutil.which(driver.COMMAND):
            self._own.gpus = self._sampler.gpus = gpus.count_of_host(self._context.identity.tags)
        values = self._sampler.sample(time.monotonic())
        for fault in self._sampler.driver.faults:
            self._report(fault)
        if not values:
            return False
        pace = self._progress.latest.get(host_use.STEPS)
        own = {} if pace is None else {host_use.STEPS: float(pace)}
        at, measured = int(time.time()), {**values, **own}
        self._own.add(at, measured)
        self._add_use(at, measured)
        return True

    def _write(self) -> None:
        self._context.bucket.write(self._key(self._context.assignment), self._own.to_text().encode())

    def _read_others(self) -> None:
        for other in self._context.cluster.assignments:
            if other.instance == self._own.instance:
                continue
            text = self._context.bucket.read_if_there(self._key(other))
            found = host_use.read(text) if text else None
            if found and found.instance == other.instance:
                self._others[other.instance] = found

    def _judge(self) -> None:
        if not self._context.assignment.is_chief:
            return
        hosts = (self._own, *self._others.values())
        observed: dict[str, Any] = dict(self._progress.observed)
        if limit := limits.find_limit(hosts):
            observed["limited"] = limit
        if slowed := degraded.find_degraded(hosts):
            observed["degraded"] = {**observed.get("degraded", {}), **slowed}
        ranks = [each for each in hosts if self._trains(each)]
        if len(ranks) == sum(map(_is_rank, self._context.cluster.assignments)) and (
            slow := limits.find_slow(ranks)
        ):
            observed.setdefault("slow", {slow.instance: slow.reason})
        self._progress.observed = observed

    def _trains(self, use: HostUse) -> bool:
        return any(
            each.instance == use.instance and _is_rank(each) for each in self._context.cluster.assignments
        )

    def _key(self, assignment: Assignment) -> str:
        cluster = self._context.cluster
        return f"{keys.use(cluster.run, cluster.attempt)}{assignment.name}.json"


def _is_rank(assignment: Assignment) -> bool:
    """Return True for the hosts that train in step."""
    return assignment.role in (Role.CHIEF, Role.WORKER)


def _name(assignment: Assignment) -> str:
    return f"{assignment.role} {assignment.index}"
