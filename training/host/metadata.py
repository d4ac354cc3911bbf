"""The instance metadata service, version 2: this host's identity and its spot interruption notice."""

import http.client
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from training.host.errors import HostTrouble

SERVICE = "169.254.169.254"
TOKEN_SECONDS = 21600
PATIENCE_SECONDS, TIMES = 3.0, 3
FIRST_PAUSE_SECONDS, FIRST_PAUSES, LATER_PAUSE_SECONDS = 2.0, 30, 60.0
NO_FILES = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
"""Variables for processes that use the host's own credentials. Their credentials come from this service, even if users
have put other ones into the home of the agent's account."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InterruptionNotice:
    """A spot interruption notice: AWS takes the host back at `at`."""

    action: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Identity:
    instance: str
    region: str
    address: str
    image: str
    tags: dict[str, str]
    zone: str = ""
    """The Availability Zone."""


class Metadata:
    """A client that keeps a session token, but no connection. Each thread needs its own client."""

    def __init__(self, service: str = SERVICE) -> None:
        self._service = service
        self._token = ""

    def identity(self) -> Identity:
        """Return instance id, region, address, image, and tags. Raises HostTrouble if the service lacks one of them."""
        return Identity(
            instance=self._need("meta-data/instance-id"),
            region=self._need("meta-data/placement/region"),
            address=self._need("meta-data/local-ipv4"),
            image=self._need("meta-data/ami-id"),
            tags=self._tags(),
            zone=self._get("meta-data/placement/availability-zone") or "",
        )

    def await_identity(self, sleep: Callable[[float], None] = time.sleep) -> Identity:
        """Return the identity as soon as it is available. The tags of a host that was launched by hand may stay hidden
        forever. Therefore ask every 2 s in the first minute, then once a minute."""
        tries, reason = 0, ""
        while True:
            try:
                return self.identity()
            except HostTrouble as trouble:
                if trouble.reason != reason:
                    reason = trouble.reason
                    logger.warning("this host waits for its tags: %s", reason)
            tries += 1
            sleep(FIRST_PAUSE_SECONDS if tries <= FIRST_PAUSES else LATER_PAUSE_SECONDS)

    def interruption_notice(self) -> InterruptionNotice | None:
        """Return the spot interruption notice; None if there is none."""
        text = self._get("meta-data/spot/instance-action")
        if text is None:
            return None
        notice = json.loads(text)
        return InterruptionNotice(action=notice["action"], at=datetime.fromisoformat(notice["time"]))

    def tag(self, name: str) -> str | None:
        """Return the current value of a tag; None if the host lacks the tag."""
        return self._get(f"meta-data/tags/instance/{name}")

    def _tags(self) -> dict[str, str]:
        names = self._get("meta-data/tags/instance")
        if names is None:
            raise HostTrouble(
                "the metadata service shows no tags, so this host cannot find its run; "
                "launch it with MetadataOptions InstanceMetadataTags=enabled"
            )
        return {name: self._need(f"meta-data/tags/instance/{name}") for name in names.splitlines() if name}

    def _need(self, path: str) -> str:
        text = self._get(path)
        if text is None:
            raise HostTrouble(f"the metadata service has no {path}")
        return text

    def _get(self, path: str) -> str | None:
        """Return the text at `path`; None for 404. Request a new token once if the service refuses the old one."""
        for _ in range(2):
            if not self._token:
                headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
                status, self._token = self._send("PUT", "/latest/api/token", headers)
                if status != http.client.OK:
                    self._token = ""
                    raise HostTrouble(f"the metadata service refused a token: HTTP {status}")
            status, text = self._send("GET", f"/latest/{path}", {"X-aws-ec2-metadata-token": self._token})
            if status == http.client.OK:
                return text
            if status == http.client.NOT_FOUND:
                return None
            self._token = ""
        raise HostTrouble(f"the metadata service answered HTTP {status} for {path}")

    def _send(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        """Send a request again if no answer arrives: a lost packet must not fail a user's command."""
        for _ in range(TIMES - 1):
            try:
                return self._send_once(method, path, headers)
            except HostTrouble as trouble:
                logger.debug("%s", trouble.reason)
        return self._send_once(method, path, headers)

    def _send_once(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._service, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise HostTrouble(f"the metadata service at {self._service} does not answer: {error}") from error
        finally:
            connection.close()
