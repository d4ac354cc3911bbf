"""What a forwarded port carries and adds, how soon a cut session goes on, and how many people a host takes at once.

Client, host and server share this machine's cores, and each other's: the figures are of the two ends of ours, and no
forecast for AWS, whose agent sends 1,024 bytes a millisecond. The host is one of the base image: no yard is deployed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

from scripts.local_yard import ROOT, Cloud, port_for
from trainyard import __version__
from trainyard.client import Session, Yard
from trainyard.client.sessions import opening
from trainyard.client.sessions.link import Link
from trainyard.datachannel.channel import Channel
from trainyard.datachannel.message import Kind

STATE = ROOT / "build" / "bench-sessions"
IMAGE = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
NAME, ACCOUNT, PORT = "bench", "123456789012", 7008
SIZE = 300_000_000
"""Bytes of a round."""
ROUNDS, REQUESTS, PEOPLE, CUTS = 3, 300, 20, 3
CUT_SECONDS = 5.0
WAIT_SECONDS = 60.0
SERVER = f"""
import socket, threading
def serve(connection):
    with connection, connection.makefile("rwb") as file:
        for line in file:
            word, _, size = line.strip().partition(b" ")
            if word == b"give":
                file.write(bytes(int(size)))
            elif word == b"take":
                left = int(size)
                while left:
                    left -= len(file.read1(min(left, 1 << 18)))
                file.write(b"taken\\n")
            else:
                file.write(line)
            file.flush()
with socket.create_server(("127.0.0.1", {PORT})) as server:
    while True:
        threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""
DIRECT = f"""
import socket, statistics, time
def request():
    begun = time.perf_counter()
    file.write(b"hello\\n"); file.flush(); file.readline()
    return time.perf_counter() - begun
with socket.create_connection(("127.0.0.1", {PORT})) as connection:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file = connection.makefile("rwb")
    print(1000 * statistics.median(request() for _ in range({REQUESTS})))
"""
TELLS = {
    "yard": NAME, "version": __version__, "account": ACCOUNT, "bucket": NAME, "table": NAME, "bus": NAME,
    "recipe": NAME, "software": NAME, "workflows": {}, "dashboard": NAME, "monthly_dollars": 0,
    "topic": NAME, "policies": {},
}  # fmt: skip
"""What a client finds of a yard: a host is all that is asked for here."""


@dataclass(frozen=True)
class Measured:
    """Megabytes a second are medians of rounds. Milliseconds are what a request takes more than on the host itself: the
    median, and what 19 of 20 stay below. `back_seconds`: the longest from when a cut way was whole again until what was
    typed meanwhile has answered; `people_seconds`: until each of so many has a shell that has answered."""

    from_host: float
    to_host: float
    added_ms: float
    added_p95_ms: float
    back_seconds: float
    people_seconds: float


def measure() -> Measured:
    """One host on a local cloud of its own."""
    shutil.rmtree(STATE, ignore_errors=True)
    STATE.mkdir(parents=True)
    cloud = Cloud(STATE, port_for(0))
    cloud.up()
    try:
        yard, host = _furnished(cloud.session())
        _on(
            yard,
            host,
            f"cat > /tmp/serve.py <<'END'\n{SERVER}\nEND\nsystemd-run --unit bench -- python3 /tmp/serve.py",
        )
        _on(yard, host, f"until grep -q :{PORT:04X} /proc/net/tcp; do sleep 0.1; done")
        direct = float(_on(yard, host, f"python3 -c {shlex.quote(DIRECT)}"))
        with _forwarded(yard, host) as port, socket.create_connection(("127.0.0.1", port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            file = connection.makefile("rwb")
            requests = sorted(1000 * _request(file) for _ in range(REQUESTS))
            given = [_given(file) for _ in range(ROUNDS)]
            taken = [_taken(file) for _ in range(ROUNDS)]
        return Measured(
            round(statistics.median(given), 1),
            round(statistics.median(taken), 1),
            round(statistics.median(requests) - direct, 2),
            round(requests[int(0.95 * REQUESTS)] - direct, 2),
            round(asyncio.run(_back(yard, host, cloud.port)), 2),
            round(asyncio.run(_people(yard, host)), 2),
        )
    finally:
        cloud.down()


# --- a host, and what a client needs to find it ---
def _furnished(session: Session) -> tuple[Yard, str]:
    """What stands for a yard, and a host of it that Systems Manager knows."""
    ssm, iam, ec2 = (session.client(each) for each in ("ssm", "iam", "ec2"))
    ssm.put_parameter(Name=f"/{NAME}/yard", Type="String", Value=json.dumps(TELLS))
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    may = {"Effect": "Allow", "Action": ["ssm:UpdateInstanceInformation", "ssmmessages:*"], "Resource": "*"}
    iam.create_role(RoleName=NAME, AssumeRolePolicyDocument=_policy(trust))
    iam.put_role_policy(RoleName=NAME, PolicyName=NAME, PolicyDocument=_policy(may))
    iam.create_instance_profile(InstanceProfileName=NAME)
    iam.add_role_to_instance_profile(InstanceProfileName=NAME, RoleName=NAME)
    launched = ec2.run_instances(
        ImageId=ssm.get_parameter(Name=IMAGE)["Parameter"]["Value"],
        InstanceType="g5.xlarge",
        MinCount=1,
        MaxCount=1,
        IamInstanceProfile={"Name": NAME},
        TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "trainyard:yard", "Value": NAME}]}],
    )
    _until(lambda: ssm.describe_instance_information()["InstanceInformationList"])
    return Yard.find(NAME, session=session), str(launched["Instances"][0]["InstanceId"])


def _policy(statement: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _on(yard: Yard, host: str, line: str) -> str:
    """What a command there prints, by Run Command. It must succeed."""
    ssm = yard.session.client("ssm")
    sent = ssm.send_command(
        InstanceIds=[host], DocumentName="AWS-RunShellScript", Parameters={"commands": [line]}
    )
    which = {"CommandId": sent["Command"]["CommandId"], "InstanceId": host}
    found: dict[str, Any] = {}

    def over() -> bool:
        found.update(ssm.get_command_invocation(**which))
        return found["Status"] not in ("Pending", "InProgress", "Delayed")

    _until(over)
    if found["Status"] != "Success":
        raise RuntimeError(f"a command on the host has failed: {found['StandardErrorContent']}")
    return str(found["StandardOutputContent"])


def _until(true: Callable[[], Any]) -> None:
    ends = time.monotonic() + WAIT_SECONDS
    while not true():
        if time.monotonic() > ends:
            raise RuntimeError(f"the host was not ready within {WAIT_SECONDS:g} s")
        time.sleep(0.1)


# --- a port ---
@contextmanager
def _forwarded(yard: Yard, host: str) -> Iterator[int]:
    """`trainyard forward`, as a person types it; the port here."""
    credentials = yard.session.boto.get_credentials().get_frozen_credentials()
    environment = os.environ | {
        "AWS_ENDPOINT_URL": str(yard.session.endpoint),
        "AWS_ACCESS_KEY_ID": credentials.access_key,
        "AWS_SECRET_ACCESS_KEY": credentials.secret_key,
        "AWS_SESSION_TOKEN": credentials.token or "",
        "AWS_REGION": yard.session.region,
        "PYTHONPATH": str(ROOT),
    }
    words = [
        sys.executable,
        "-m",
        "trainyard.cli",
        "--yard",
        NAME,
        "forward",
        host,
        f"{PORT}:0",
        "-o",
        "json",
    ]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(json.loads(process.stdout.readline())["local"])
    finally:
        process.terminate()
        process.wait(30)


def _request(file: Any) -> float:
    begun = time.perf_counter()
    file.write(b"hello\n")
    file.flush()
    assert file.readline() == b"hello\n"
    return time.perf_counter() - begun


def _given(file: Any) -> float:
    begun, left = time.perf_counter(), SIZE
    file.write(b"give %d\n" % SIZE)
    file.flush()
    while left:
        left -= len(file.read1(min(left, 1 << 18)))
    return SIZE / 1e6 / (time.perf_counter() - begun)


def _taken(file: Any) -> float:
    begun = time.perf_counter()
    file.write(b"take %d\n" % SIZE)
    file.write(bytes(SIZE))
    file.flush()
    assert file.readline() == b"taken\n"
    return SIZE / 1e6 / (time.perf_counter() - begun)


# --- shells ---
async def _back(yard: Yard, host: str, server: int) -> float:
    """The longest of some cuts."""
    opened = await asyncio.to_thread(opening.start, yard, host, opening.SHELL, {}, NAME)
    longest = 0.0
    async with _Way(server) as way:
        url = opened.url.replace(f":{server}/", f":{way.port}/")
        session = Session(yard.session.boto, f"http://127.0.0.1:{way.port}")
        link = Link(session, opening.Opened(opened.id, host, url, opened.token), _unsaid)
        async with link.linked() as channel:
            payloads = link.payloads()
            await _answers(channel, payloads, "0")
            for number in range(1, CUTS + 1):
                way.cut()
                asking = asyncio.ensure_future(_answers(channel, payloads, str(number)))
                await asyncio.sleep(CUT_SECONDS)
                begun = time.perf_counter()
                way.mend()
                await asking
                longest = max(longest, time.perf_counter() - begun)
        await link.terminate()
    return longest


async def _people(yard: Yard, host: str) -> float:
    """Seconds until so many have a shell that has answered."""
    begun = time.perf_counter()
    await asyncio.gather(*(_person(yard, host) for _ in range(PEOPLE)))
    return time.perf_counter() - begun


async def _person(yard: Yard, host: str) -> None:
    opened = await asyncio.to_thread(opening.start, yard, host, opening.SHELL, {}, NAME)
    link = Link(yard.session, opened, _unsaid)
    async with link.linked() as channel:
        await _answers(channel, link.payloads(), "here")
    await link.terminate()


async def _answers(channel: Channel, payloads: Any, word: str) -> None:
    """Once the shell has said the word, which is not what its terminal echoes."""
    channel.write(Kind.OUTPUT, f"echo sa''id-{word}.\r".encode())
    said = b""
    while f"said-{word}.".encode() not in said:
        _, payload = await anext(payloads)
        said += payload


def _unsaid(_: str) -> None:
    """Nobody reads what a link has to say."""


class _Way:
    """To the server, and can be cut: every connection ends, and none is made until it is mended."""

    def __init__(self, server: int) -> None:
        self.port, self._server, self._open = 0, server, True
        self._ends: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._listening.close()
        while self._ends:
            await asyncio.sleep(0.01)

    def cut(self) -> None:
        self._open = False
        for writer in list(self._ends):
            writer.transport.abort()

    def mend(self) -> None:
        self._open = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._server)
        self._ends |= {writer, back}
        try:
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        finally:
            self._ends -= {writer, back}
            writer.transport.abort()
            back.transport.abort()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()
