"""The instance metadata service, IMDSv2 only. It identifies a host by its address and requires a session token.

Paths and answers are those that boto3, the SSM agent and host software read on AWS. Other paths return 404.
"""

from __future__ import annotations

import base64
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from localcloud.machine.hypervisor.machine import METADATA_ADDRESS, InstanceDetails, Machine

logger = logging.getLogger(__name__)

LONGEST_TTL = 21600
IDLE_SECONDS = 75.0
"""Timeout of an idle connection, because a disconnected host never closes its own."""
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - the header's name

Tree = Mapping[str, "Tree | str"]


@dataclass(frozen=True)
class Token:
    instance_id: str
    expires: float


class Tokens:
    """Session tokens, each valid for one instance until it expires."""

    def __init__(self) -> None:
        self._tokens: dict[str, Token] = {}
        self._lock = threading.Lock()

    def issue(self, instance_id: str, ttl: int, now: float) -> str:
        name = base64.urlsafe_b64encode(secrets.token_bytes(40)).decode()
        with self._lock:
            self._tokens = {known: token for known, token in self._tokens.items() if token.expires > now}
            self._tokens[name] = Token(instance_id, now + ttl)
        return name

    def is_good(self, name: str | None, instance_id: str, now: float) -> bool:
        token = self._tokens.get(name or "")
        return token is not None and token.instance_id == instance_id and token.expires > now


def timestamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def metadata_tree(machine: Machine, details: InstanceDetails) -> Tree:
    """Return everything below /latest/meta-data that this host may read now."""
    tree: dict[str, Tree | str] = {
        "ami-id": machine.image_id,
        "hostname": f"{machine.hostname}.ec2.internal",
        "instance-action": "none",
        "instance-id": machine.instance_id,
        "instance-life-cycle": "spot" if details.is_spot else "on-demand",
        "instance-type": machine.instance_type,
        "local-hostname": f"{machine.hostname}.ec2.internal",
        "local-ipv4": machine.private_ip,
        "mac": machine.mac,
        "placement": {
            "availability-zone": machine.zone,
            "region": machine.region,
        },
        "services": {"domain": "amazonaws.com", "partition": "aws"},
    }
    if details.shows_tags:
        tree["tags"] = {"instance": dict(details.tags)}
    if details.spot_action is not None:
        action, at = details.spot_action
        tree["spot"] = {
            "instance-action": json.dumps({"action": action, "time": timestamp(at)}),
            "termination-time": timestamp(at),
        }
    if machine.role is not None and details.credentials is not None:
        tree["iam"] = {
            "info": json.dumps(_profile(machine, details), indent=2),
            "security-credentials": {machine.role: json.dumps(details.credentials, indent=2)},
        }
    return tree


def identity_document(machine: Machine, details: InstanceDetails) -> str:
    document = {
        "accountId": details.account,
        "architecture": "x86_64",
        "availabilityZone": machine.zone,
        "billingProducts": None,
        "imageId": machine.image_id,
        "instanceId": machine.instance_id,
        "instanceType": machine.instance_type,
        "pendingTime": timestamp(machine.launched_at),
        "privateIp": machine.private_ip,
        "region": machine.region,
        "version": "2017-09-30",
    }
    return json.dumps(document, indent=2)


def _profile(machine: Machine, details: InstanceDetails) -> dict[str, str]:
    arn = details.instance_profile_arn or f"arn:aws:iam::{details.account}:instance-profile/{machine.role}"
    return {
        "Code": "Success",
        "LastUpdated": timestamp(datetime.now(UTC)),
        "InstanceProfileArn": arn,
        "InstanceProfileId": details.instance_profile_id or "AIPA" + "0" * 17,
    }


def look_up(tree: Tree | str, path: str) -> str | None:
    """Return a value, a listing (folders end in `/`), or None for 404."""
    node: Tree | str = tree
    for name in [part for part in path.split("/") if part]:
        if isinstance(node, str) or name not in node:
            return None
        node = node[name]
    if isinstance(node, str):
        return node
    return "\n".join(name if isinstance(node[name], str) else name + "/" for name in sorted(node))


def answer(machine: Machine, details: InstanceDetails, path: str) -> bytes | None:
    """Return the answer to GET `path` from this host, or None for 404."""
    # any version is accepted: latest, 2021-07-15 ...
    _, _, rest = unquote(path.partition("?")[0]).strip("/").partition("/")
    category, _, below = rest.partition("/")
    match category:
        case "":
            return b"dynamic\nmeta-data" + (b"\nuser-data" if machine.user_data else b"")
        case "meta-data":
            found = look_up(metadata_tree(machine, details), below)
            return found.encode() if found is not None else None
        case "user-data" if not below:
            return machine.user_data or None
        case "dynamic":
            document = {"instance-identity": {"document": identity_document(machine, details)}}
            found = look_up(document, below)
            return found.encode() if found is not None else None
    return None


class MetadataServer:
    """A server on the metadata address. `start` returns once it listens."""

    def __init__(
        self, machine_at: Callable[[str], Machine | None], details: Callable[[str], InstanceDetails]
    ) -> None:
        tokens = Tokens()

        class Handler(_Handler):
            def setup(self) -> None:
                super().setup()
                self.machine_at, self.details, self.tokens = machine_at, details, tokens

        self._server = ThreadingHTTPServer((METADATA_ADDRESS, 80), Handler, bind_and_activate=False)
        self._server.daemon_threads = True

    def start(self) -> None:
        self._server.server_bind()
        self._server.server_activate()
        threading.Thread(target=self._server.serve_forever, name="metadata", daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server_version = "EC2ws"
    sys_version = ""
    machine_at: Callable[[str], Machine | None]
    details: Callable[[str], InstanceDetails]
    tokens: Tokens

    def do_PUT(self) -> None:
        machine = self.machine_at(self.client_address[0])
        if machine is None or not self.path.endswith("/api/token"):
            self._give(404 if machine else 403)
        elif self.headers.get("X-Forwarded-For") is not None:
            self._give(403)  # a token must not pass through a proxy
        elif (ttl := self._ttl()) is None:
            self._give(400)
        else:
            token = self.tokens.issue(machine.instance_id, ttl, time.monotonic())
            self._give(200, token.encode(), {TTL_HEADER: str(ttl)})

    def do_GET(self) -> None:
        machine = self.machine_at(self.client_address[0])
        if machine is None:
            self._give(403)
        elif not self.tokens.is_good(self.headers.get(TOKEN_HEADER), machine.instance_id, time.monotonic()):
            self._give(401)
        else:
            found = answer(machine, self.details(machine.instance_id), self.path)
            self._give(404 if found is None else 200, found or b"")

    do_HEAD = do_GET

    def _ttl(self) -> int | None:
        text = self.headers.get(TTL_HEADER, "")
        return int(text) if text.isdigit() and 1 <= int(text) <= LONGEST_TTL else None

    def _give(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it
        logger.debug("%s: %s", self.client_address[0], format % arguments)
