"""The mounted data of an attempt: mounted before the program starts, watched while it runs."""

import threading
import time

from training.host.agent.context import Context
from training.host.data.fetch import link_shares, mounted_entries
from training.host.mounts import file_systems, streams
from training.host.mounts.mounting import Mount, answers, end_servers, is_mounted, mount, unmount
from trainyard.protocol import signals

LOOK_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""A file system that does not answer for this long is lost."""
REPORT_SECONDS = 60.0


class Mounts:
    """The mounted data entries of one attempt on this host."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._changed_before = len(streams.changed_objects(context.paths.mounts))
        self._answered: dict[str, float] = {}
        self._lost = ""
        self._over = threading.Event()
        self._gets, self._reported_at = 0, float("-inf")
        self._mounts = [self._mount_of(name) for name in self._names]

    @property
    def _names(self) -> list[str]:
        return [entry.name for entry in mounted_entries(self._context.job)]

    def _mount_of(self, name: str) -> Mount:
        entry = next(each for each in mounted_entries(self._context.job) if each.name == name)
        data, identity = self._context.job.data[name], self._context.identity
        if data.folder:
            return file_systems.mount_of(name, data, identity.zone, identity.region, self._context.paths)
        cache_gib = data.cache_gib
        return streams.stream_of(entry, cache_gib, self._context.bucket, self._context.paths)

    def mount(self) -> None:
        """Mount every entry, and link this host's shares. Mounts that answer stay."""
        context = self._context
        self._keep_credentials()
        for each in self._mounts:
            mount(each)
        with context.account.act():
            link_shares(context.bucket, context.cluster, context.assignment, context.job, context.paths)

    def watch(self) -> None:
        """Look at each mount from a thread of its own, because a look waits as long as the file system does."""
        for each in self._mounts:
            self._answered[each.label] = time.monotonic()
            threading.Thread(
                target=self._watch, args=(each,), name=f"mount {each.label}", daemon=True
            ).start()

    def _watch(self, watched: Mount) -> None:
        while not self._over.wait(LOOK_SECONDS):
            if is_mounted(watched.path) and answers(watched.path):
                self._answered[watched.label] = time.monotonic()
            elif not self._over.is_set():
                self._lost = (
                    self._lost or f"the mount of {watched.label} ({watched.source}) has ended on this host"
                )

    @property
    def lost(self) -> str:
        """Return why a mount is lost, as a sentence without a period; empty if all of them answer."""
        for each in self._mounts:
            silent = time.monotonic() - self._answered.get(each.label, time.monotonic())
            if not self._lost and silent >= SILENT_SECONDS:
                self._lost = f"the mount of {each.label} ({each.source}) does not answer since {silent:.0f} s"
                end_servers(each.path)  # its readers wait in the kernel, where no signal reaches them
        return self._lost

    def report(self, now: float) -> None:
        """Send the number of requests if it is due. `now` is a monotonic clock."""
        if self._mounts and now - self._reported_at >= REPORT_SECONDS:
            self._reported_at = now
            self._send_gets()
            self._keep_credentials()

    def _keep_credentials(self) -> None:
        if any(entry.folder for entry in self._context.job.data.values()):
            file_systems.keep_credentials(self._context.paths)

    def _send_gets(self) -> None:
        gets = streams.count_gets(self._context.paths.mounts)
        if gets > self._gets:
            self._gets = gets
            self._context.send(signals.Streamed(gets=gets))

    def conclude(self, *, code: int) -> tuple[str, str]:
        """Look a last time after the program's end. Return why a mount is lost, and the object that changed while the
        program read it, each as a sentence or empty. After a program that has finished, unmount: the servers then log
        their last requests. Otherwise the mounts stay for the next attempt, with their caches."""
        lost = self.lost
        for each in self._mounts:
            if not lost and not (is_mounted(each.path) and answers(each.path)):
                lost = f"the mount of {each.label} ({each.source}) has ended on this host"
        self._over.set()
        for each in self._mounts:
            if each.is_written and not lost:
                file_systems.flush(each.path)
        for each in self._mounts if code == 0 else ():
            if is_mounted(each.path):
                unmount(each.path)
        self._send_gets()
        changed = streams.changed_objects(self._context.paths.mounts)[self._changed_before :]
        return lost, self._changed(changed[0]) if changed else ""

    def _changed(self, name: str) -> str:
        sources = " or ".join(each.source for each in self._mounts)
        return (
            f"{name} below {sources} was changed while this run read it, so the program would have trained on parts of "
            "two versions; write new data to a new folder, and start again"
        )
