"""Once a minute: who is at this dev host, told to CloudWatch for patrol; and a warning before patrol finds it idle."""

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
    """Of this host, as they are now: by what it is judged, since when it can be used, until when it is held."""

    judged_by: JudgedBy | None
    ready: datetime | None
    held: datetime | None

    @staticmethod
    def read(tag: Callable[[str], str | None]) -> "Tags":
        return Tags(
            JudgedBy.of_tag(tag(Tag.JUDGED_BY) or ""), _instant(tag(Tag.READY)), _instant(tag(Tag.HOLD))
        )


def _instant(text: str | None) -> datetime | None:
    """None for one that cannot be read: patrol tells of that."""
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def begin(paths: Paths, identity: Identity, server: Server, *, now: datetime) -> None:
    """From now on, in a thread of its own."""
    metadata = Metadata()
    cloudwatch = credentials.of_the_host(identity.region).client("cloudwatch", config=CALLS)
    watch = Watch(cloudwatch, identity.instance, paths, server, lambda: Tags.read(metadata.tag), born=now)
    Repeat("who uses this host", lambda _: watch.turn(datetime.now(UTC)), every=EVERY_SECONDS).start()


class Watch:
    """`turn` is called once a minute. What keeps it from telling is logged once and ends nothing: unknown is not idle.

    `tags` raises HostTrouble where the host's own are not to be had."""

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
        self._told: datetime | None = None
        self._warned = False
        self._said: set[str] = set()

    def turn(self, now: datetime) -> None:
        running = processes.find()
        at_terminals = terminals.look(running, self._paths.terminals)
        use = self._use(at_terminals, now)
        if isinstance(use, Use):
            self._tried(lambda: self._publish(use, now))
        tags = self._tried(self._tags)
        if tags is None or tags.judged_by is None:
            return
        judged_by: JudgedBy = tags.judged_by
        busy = self._tried(lambda: self._load.is_busy(running, judged_by, now))
        if isinstance(use, Unknown) or use.value or busy:
            self._used = now
        self._warn(
            decision.outlook(
                judged_by,
                used=max(self._used, tags.ready or self._used),
                born=self._born,
                held=tags.held,
                in_session=terminals.somebody_is_in(at_terminals, running),
                now=now,
            ),
            now,
        )

    def _use(self, at_terminals: tuple[decision.Terminal, ...], now: datetime) -> Use | Unknown:
        try:
            kernels, its_terminals = self._server.look()
        except HostTrouble as trouble:
            self._say_once(trouble.reason)
            return decision.use_of(Seen(None, at_terminals, self._told), now)
        return decision.use_of(Seen(kernels, (*at_terminals, *its_terminals), self._told), now)

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
        """In a file that JupyterLab's extension reads (training/jupyter/packages/trainyard_idle), and once in every
        terminal."""
        if seen.warns and not self._warned:
            text = decision.warning(seen.ends, now)
            logger.info("%s", text)
            terminals.tell(text, self._paths.terminals)
            self._told = now
        self._warned = seen.warns
        told = {
            "at": timestamp(now),
            "ends": timestamp(seen.ends) if seen.warns else None,
            "held": timestamp(seen.held) if seen.held else None,
        }
        write_whole(self._paths.idle, json.dumps(told))

    def _tried(self, do: Callable[[], Any]) -> Any:
        try:
            return do()
        except HostTrouble as trouble:
            self._say_once(trouble.reason)
            return None

    def _say_once(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            logger.warning("who uses this host: %s", reason)
