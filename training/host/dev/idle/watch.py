"""Once a minute, publish the use of this dev host for patrol, and warn users before patrol finds it idle."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from training.host import credentials, processes
from training.host.credentials import CALLS
from training.host.dev.idle import decision, terminals
from training.host.dev.idle.decision import JudgedBy, Outlook, Seen, Unknown, Use
from training.host.dev.idle.kernels import Server
from training.host.dev.idle.load import Load
from training.host.errors import HostTrouble
from training.host.metadata import Identity, Metadata
from training.host.orders import write_whole
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.reporting import gpus
from trainyard.protocol.tags import Tag
from trainyard.values.serialization import timestamp

METRIC = "InUse"
EVERY_SECONDS = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tags:
    """Tags of this host."""

    judged_by: JudgedBy | None
    ready: datetime | None
    """When the host became usable."""
    held: datetime | None
    """The end of its hold."""

    @staticmethod
    def read(tag: Callable[[str], str | None]) -> "Tags":
        return Tags(
            JudgedBy.of_tag(tag(Tag.JUDGED_BY) or ""), _instant(tag(Tag.READY)), _instant(tag(Tag.HOLD))
        )


def _instant(text: str | None) -> datetime | None:
    """Parse an instant; None if it cannot be read, which patrol reports."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def begin(paths: Paths, identity: Identity, server: Server, *, now: datetime) -> None:
    """Start the watch in its own thread."""
    metadata = Metadata()
    cloudwatch = credentials.host_session(identity.region).client("cloudwatch", config=CALLS)
    watch = Watch(cloudwatch, identity.instance, paths, server, lambda: Tags.read(metadata.tag), born=now)
    Repeat("use of this host", lambda _: watch.turn(datetime.now(UTC)), every=EVERY_SECONDS).start()


class Watch:
    """The watch over one dev host. Call `turn` once a minute. A trouble is logged once and ends nothing, because
    unknown is not idle.

    `tags` raises HostTrouble if the host's tags cannot be read."""

    def __init__(
        self,
        cloudwatch: Any,
        instance: str,
        paths: Paths,
        server: Server,
        tags: Callable[[], Tags],
        *,
        born: datetime,
    ) -> None:
        self._cloudwatch = cloudwatch
        self._instance = instance
        self._paths = paths
        self._server = server
        self._tags = tags
        self._born = born
        self._used = born
        self._load = Load()
        self._warned_at: datetime | None = None
        self._warned = False
        self._logged: set[str] = set()

    def turn(self, now: datetime) -> None:
        running = processes.find()
        at_terminals = terminals.look(running, self._paths.terminals)
        use = self._use(at_terminals, now)
        if isinstance(use, Use):
            self._try(lambda: self._publish(use, now))
        tags = self._try(self._tags)
        if tags is None or tags.judged_by is None:
            return
        judged_by: JudgedBy = tags.judged_by
        busy = self._try(lambda: self._load.is_busy(running, judged_by, now))
        if isinstance(use, Unknown) or use.value or busy:
            self._used = now
        self._warn(
            decision.outlook(
                judged_by,
                used=max(self._used, tags.ready or self._used),
                born=self._born,
                held=tags.held,
                in_session=terminals.has_session(at_terminals, running),
                now=now,
            ),
            now,
        )

    def _use(self, at_terminals: tuple[decision.Terminal, ...], now: datetime) -> Use | Unknown:
        try:
            kernels, its_terminals = self._server.look()
        except HostTrouble as trouble:
            self._log_once(trouble.reason)
            return decision.use_of(Seen(None, at_terminals, self._warned_at), now)
        return decision.use_of(Seen(kernels, (*at_terminals, *its_terminals), self._warned_at), now)

    def _publish(self, use: Use, now: datetime) -> None:
        datum = {
            "MetricName": METRIC,
            "Dimensions": [{"Name": "InstanceId", "Value": self._instance}],
            "Timestamp": now,
            "Unit": "None",
            "Value": float(use.value),
        }
        gpus.put(self._cloudwatch, [datum], what=f"the metric {METRIC}")

    def _warn(self, seen: Outlook, now: datetime) -> None:
        """Write the outlook for JupyterLab's extension (training/jupyter/packages/trainyard_idle), and warn once in
        every terminal."""
        if seen.warns and not self._warned:
            text = decision.warning(seen.ends, now)
            logger.info("%s", text)
            terminals.write_to_all(text, self._paths.terminals)
            self._warned_at = now
        self._warned = seen.warns
        written = {
            "at": timestamp(now),
            "ends": timestamp(seen.ends) if seen.warns else None,
            "held": timestamp(seen.held) if seen.held else None,
        }
        write_whole(self._paths.idle, json.dumps(written))

    def _try(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except HostTrouble as trouble:
            self._log_once(trouble.reason)
            return None

    def _log_once(self, reason: str) -> None:
        if reason not in self._logged:
            self._logged.add(reason)
            logger.warning("use of this host: %s", reason)
