"""Session Manager behaves as on AWS: permissions, data, and ends of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import boto3
import pytest
import websockets
from botocore.exceptions import ClientError
from websockets.frames import Frame, Opcode

from lambdas.aws import ssm
from tests.contract.conftest import Cloud, Credentials, allow, answering, eventually, free_port
from tests.contract.hosts.channels import CHANNELS, SERVER, WHO
from tests.contract.hosts.conftest import REGISTER, Hosts, error_code, unique
from trainyard.client import Session
from trainyard.client.errors import Denied, SessionOver
from trainyard.client.sessions.link import Link
from trainyard.client.sessions.opening import Opened
from trainyard.datachannel import handshake
from trainyard.datachannel.channel import Channel, running
from trainyard.datachannel.forwarding import Streams
from trainyard.datachannel.message import INPUT, Flag, Kind, Size

FORWARD = "AWS-StartPortForwardingSession"
COMMAND = "AWS-StartNonInteractiveCommand"
ACCOUNT = "arn:aws:ssm:us-east-1:123456789012"


@pytest.fixture(scope="module")
def hosts(cloud: Cloud) -> Iterator[Hosts]:
    made = Hosts(cloud, "")
    made.profile = made.make_profile(REGISTER, CHANNELS)
    yield made
    made.terminate_all()


@pytest.fixture(scope="module")
def host(hosts: Hosts) -> str:
    return hosts.one(tags={"yard": "one"})


def begun(hosts: Hosts, target: str, document: str | None = None, **parameters: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"Target": target}
    asked |= {"DocumentName": document} if document else {}
    asked |= {"Parameters": {key: [value] for key, value in parameters.items()}} if parameters else {}
    return dict(hosts.ssm.start_session(**asked))


def signing(cloud: Cloud, who: Credentials | None = None) -> Session:
    given = who or cloud.root
    made = boto3.Session(given.key, given.secret, given.token, region_name="us-east-1")
    return Session(made, cloud.endpoint)


def link_to(cloud: Cloud, answer: Mapping[str, Any], target: str, who: Credentials | None = None) -> Link:
    opened = Opened(answer["SessionId"], target, answer["StreamUrl"], answer["TokenValue"])
    return Link(signing(cloud, who), opened, lambda sentence: None)


def told(story: Coroutine[Any, Any, Any], seconds: float = 60) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(seconds):
            return await story

    return asyncio.run(limited())


class Heard:
    """Collects the output of a session."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.said: dict[int, bytes] = {}
        self._more = asyncio.Event()

    async def listen(self) -> None:
        async for kind, payload in self.link.payloads():
            self.said[kind] = self.said.get(kind, b"") + payload
            self._more.set()
        self._more.set()

    async def until(self, pattern: bytes, kind: int = Kind.OUTPUT) -> re.Match[bytes]:
        while not (found := re.search(pattern, self.said.get(kind, b""))):
            self._more.clear()
            await self._more.wait()
        return found


@contextlib.asynccontextmanager
async def heard(link: Link) -> AsyncIterator[Heard]:
    async with link.run_channel():
        hearing = Heard(link)
        task = asyncio.ensure_future(hearing.listen())
        try:
            yield hearing
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def type_in(link: Link, line: str) -> None:
    link.channel.write(Kind.OUTPUT, line.encode() + b"\r")


def status(hosts: Hosts, session: str) -> str | None:
    for state in ("Active", "History"):
        for page in hosts.ssm.get_paginator("describe_sessions").paginate(State=state):
            for each in page["Sessions"]:
                if each["SessionId"] == session:
                    return str(each["Status"])
    return None


# --- a shell ---


def test_a_shell_is_a_terminal_of_ssm_user(hosts: Hosts, host: str) -> None:
    async def story() -> None:
        async with heard(link_to(hosts.cloud, begun(hosts, host), host)) as shell:
            type_in(shell.link, "id -un; tty; echo $TERM $HOME; pwd; ps -o tty= -p $$")
            await shell.until(rb"%b\r\n/dev/pts/\d+\r\nxterm-256color %b\r\n/\r\npts/\d+" % WHO)
            shell.link.channel.write(Kind.SIZE, Size(123, 45).payload())
            type_in(shell.link, "stty size")
            await shell.until(rb"45 123")

    told(story())


def test_control_c_interrupts_what_runs_and_the_shell_goes_on(hosts: Hosts, host: str) -> None:
    async def story() -> None:
        async with heard(link_to(hosts.cloud, begun(hosts, host), host)) as shell:
            # the command's process reports once it has the terminal
            type_in(shell.link, "sh -c \"echo wai''ting; exec sleep 1000\"")
            await shell.until(rb"waiting")
            shell.link.channel.write(Kind.OUTPUT, b"\x03")
            type_in(shell.link, "echo back $?")
            await shell.until(rb"back 130")

    told(story())


def test_a_shell_that_exits_ends_its_session(hosts: Hosts, host: str) -> None:
    answer = begun(hosts, host)

    async def story() -> None:
        link = link_to(hosts.cloud, answer, host)
        async with heard(link) as shell:
            type_in(link, "echo by''e; exit 3")
            await shell.until(rb"bye")
            while link.channel.closed is None:
                await asyncio.sleep(0.01)
            assert (link.channel.closed.session, link.channel.closed.output) == (answer["SessionId"], "")

    told(story())
    eventually(lambda: status(hosts, answer["SessionId"]) == "Terminated")
    assert error_code(hosts.ssm.resume_session, SessionId=answer["SessionId"]) == "DoesNotExistException"


def test_what_a_session_has_started_ends_with_it(hosts: Hosts, host: str) -> None:
    answer, mark = begun(hosts, host), unique("left")

    async def story() -> None:
        link = link_to(hosts.cloud, answer, host)
        async with heard(link) as shell:
            type_in(link, f"echo $$ > /tmp/{mark}; sleep 12345")
            await shell.until(rb"sleep 12345")
            # a child outside the terminal's foreground gets no signal at its end
            eventually(lambda: hosts.run(host, "pgrep -f 'slee[p] 12345' || true"))
            hosts.ssm.terminate_session(SessionId=answer["SessionId"])
            while link.channel.closed is None:
                await asyncio.sleep(0.01)

    told(story())
    eventually(lambda: status(hosts, answer["SessionId"]) == "Terminated")
    gone = (
        f"kill -0 $(cat /tmp/{mark}) 2>/dev/null && echo there || echo gone; pgrep -f 'slee[p] 12345' || true"
    )
    eventually(
        lambda: hosts.run(host, gone).split() == ["gone"]
    )  # closing the terminal ends its foreground processes
    assert hosts.ssm.terminate_session(SessionId=answer["SessionId"])["SessionId"] == answer["SessionId"]


def test_much_output_comes_whole_and_a_reader_that_waits_stops_it(hosts: Hosts, host: str) -> None:
    async def story() -> None:
        link = link_to(hosts.cloud, begun(hosts, host), host)
        async with link.run_channel() as channel:
            type_in(link, "stty -echo -onlcr; seq 1 200000; echo en''d")
            await asyncio.sleep(0.5)  # no process reads
            text = b""
            async for _, payload in channel.payloads():
                text += payload
                if b"end" in text[-10:]:
                    break
        lines = text[text.index(b"1\n2\n3\n") :].split()  # after the echo of the line, or a later prompt
        assert lines[:200000] == [b"%d" % number for number in range(1, 200001)]

    told(story())


# --- commands ---


def separate(hosts: Hosts) -> str:
    """Return a document like the yard's, with separate output and errors, and an exit code."""
    name = unique("command")
    content = {
        "schemaVersion": "1.0",
        "description": "One command.",
        "sessionType": "NonInteractiveCommands",
        "parameters": {"command": {"type": "String"}},
        "properties": {
            "linux": {"commands": "{{ command }}", "runAsElevated": False, "separateOutputStream": "true"}
        },
    }
    hosts.ssm.create_document(Name=name, Content=json.dumps(content), DocumentType="Session")
    return name


async def outcome(hosts: Hosts, host: str, document: str, command: str) -> dict[int, bytes]:
    link = link_to(hosts.cloud, begun(hosts, host, document, command=command), host)
    said: dict[int, bytes] = {}
    async with link.run_channel():
        async for kind, payload in link.payloads():
            said[kind] = said.get(kind, b"") + payload
    return said


def test_a_command_says_output_errors_and_how_it_ended(hosts: Hosts, host: str) -> None:
    document = separate(hosts)
    said = told(outcome(hosts, host, document, "sh -c 'id -un; echo wrong >&2; exit 7'"))
    assert said[Kind.OUTPUT] == WHO[0] + b"\n"
    assert said[Kind.STDERR] == b"wrong\n"
    assert said[Kind.EXIT_CODE] == b"EXIT_CODE: 7"


def test_amazons_document_for_commands_mixes_both_and_says_no_code(hosts: Hosts, host: str) -> None:
    said = told(outcome(hosts, host, COMMAND, "sh -c 'echo out; echo err >&2; exit 7'"))
    assert sorted(said[Kind.OUTPUT].split()) == [b"err", b"out"]
    assert set(said) == {Kind.OUTPUT, Kind.HANDSHAKE_COMPLETE}


def test_what_a_command_leaves_ends_with_it_unless_it_has_a_session_of_its_own(
    hosts: Hosts, host: str
) -> None:
    document = separate(hosts)
    for starts, process in (("nohup", "sleep 23456"), ("setsid nohup", "sleep 34567")):
        until_it_runs = f'until pgrep -xf "{process}" >/dev/null; do sleep 0.1; done'
        command = f"sh -c '{starts} {process} >/dev/null 2>&1 & {until_it_runs}'"
        said = told(outcome(hosts, host, document, command))
        assert said[Kind.EXIT_CODE] == b"EXIT_CODE: 0"
    running = hosts.run(host, "pgrep -f 'slee[p] [23]'; pkill -f 'slee[p] 34567'")
    assert len(running.split()) == 1


def test_a_command_that_is_not_there_says_so(hosts: Hosts, host: str) -> None:
    said = told(outcome(hosts, host, COMMAND, "no-such-command"))
    assert b"Unable to start command" in said[Kind.OUTPUT]


def test_a_control_character_is_a_signal_to_a_command(hosts: Hosts, host: str) -> None:
    answer = begun(hosts, host, separate(hosts), command="sh -c 'echo on; exec sleep 1000'")

    async def story() -> None:
        async with heard(link_to(hosts.cloud, answer, host)) as command:
            await command.until(rb"on")
            command.link.channel.write(Kind.OUTPUT, b"\x03")
            await command.until(rb"EXIT_CODE: 130", Kind.EXIT_CODE)

    told(story())


# --- ports ---


@pytest.fixture(scope="module")
def echo(hosts: Hosts, host: str) -> int:
    """Start a server on the host that echoes its input, and `end` at the end. Return its port."""
    lines = f"cat > /tmp/echo.py <<'E'\n{SERVER}\nE\nsystemd-run --unit echo -- python3 /tmp/echo.py 7007 /tmp/echo.up"
    hosts.run(host, lines, "until [ -e /tmp/echo.up ]; do sleep 0.05; done")
    return 7007


@contextlib.asynccontextmanager
async def forwarded(link: Link) -> AsyncIterator[tuple[int, Streams, list[bytes]]]:
    """Yield a local port that is forwarded to the host."""
    flags: list[bytes] = []
    async with link.run_channel() as channel:
        streams, shaken = Streams(channel), asyncio.Event()

        async def pump() -> None:
            async for kind, payload in link.payloads():
                if kind == Kind.OUTPUT:
                    await streams.handle(payload)
                elif kind == Kind.FLAG:
                    flags.append(payload)
                elif kind == Kind.HANDSHAKE_COMPLETE:
                    shaken.set()

        task = asyncio.ensure_future(pump())
        await shaken.wait()
        server = await asyncio.get_running_loop().create_server(streams.accept, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1], streams, flags
        finally:
            server.close()
            streams.close()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.sleep(0)  # aborted connections are closed


async def asked(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    found = await reader.read()
    writer.close()
    await writer.wait_closed()
    return found


def test_a_port_carries_many_connections_at_once(hosts: Hosts, host: str, echo: int) -> None:
    answer = begun(hosts, host, FORWARD, portNumber=str(echo))

    async def story() -> None:
        async with forwarded(link_to(hosts.cloud, answer, host)) as (port, streams, _):
            sent = [b"%03d" % number * 20_000 for number in range(20)]
            assert await asyncio.gather(*(asked(port, data) for data in sent)) == [
                data + b"end" for data in sent
            ]
            while streams.count:
                await asyncio.sleep(0.01)

    told(story())


def test_where_nobody_listens_a_flag_says_so_and_the_session_goes_on(
    hosts: Hosts, host: str, echo: int
) -> None:
    answer = begun(hosts, host, FORWARD, portNumber="7999")

    async def story() -> None:
        async with forwarded(link_to(hosts.cloud, answer, host)) as (port, _, flags):
            assert await asked(port, b"hello") == b""
            assert flags == [Flag.CONNECT_TO_PORT_ERROR.payload]
            assert status(hosts, answer["SessionId"]) == "Connected"

    told(story())


def test_the_flag_that_terminates_ends_a_forward(hosts: Hosts, host: str, echo: int) -> None:
    answer = begun(hosts, host, FORWARD, portNumber=str(echo))

    async def story() -> None:
        async with forwarded(link_to(hosts.cloud, answer, host)) as (_, streams, _flags):
            link_channel = streams._channel
            link_channel.write(Kind.FLAG, Flag.TERMINATE_SESSION.payload)
            while link_channel.closed is None:
                await asyncio.sleep(0.01)

    told(story())
    eventually(lambda: status(hosts, answer["SessionId"]) == "Terminated")


def test_ssh_has_one_connection_which_is_the_session(hosts: Hosts, host: str, echo: int) -> None:
    answer = begun(hosts, host, "AWS-StartSSHSession", portNumber=str(echo))

    async def story() -> None:
        async with heard(link_to(hosts.cloud, answer, host)) as ssh:
            await ssh.until(rb"Handshake", Kind.HANDSHAKE_COMPLETE)
            ssh.link.channel.write(Kind.OUTPUT, b"SSH-2.0-hello\r\n")
            await ssh.until(rb"SSH-2.0-hello")

    told(story())


# --- payload sizes ---


async def small(cloud: Cloud, answer: Mapping[str, Any], target: str) -> list[int]:
    """Return the payload sizes for a client without support for larger ones."""
    sizes: list[int] = []
    channel = Channel(INPUT)

    class Way:
        async def send(self, data: bytes) -> None:
            await way.send(data)

    async with (
        running(channel),
        websockets.connect(answer["StreamUrl"], compression=None, open_timeout=60) as way,
    ):
        await way.send(handshake.opening_text("r", answer["TokenValue"], "c", "1.2.0.0"))
        await channel.attach(Way())

        async def read() -> None:
            async for data in way:
                await channel.take(data if isinstance(data, bytes) else data.encode())

        reading = asyncio.ensure_future(read())
        async for kind, payload in channel.payloads():
            if kind == Kind.HANDSHAKE_REQUEST:
                channel.write(Kind.HANDSHAKE_RESPONSE, b'{"ClientVersion": "1.2.0.0", "Errors": []}')
            if kind == Kind.OUTPUT:
                sizes.append(len(payload))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    return sizes


def test_a_client_that_does_not_ask_for_more_gets_1024_bytes_at_a_time(hosts: Hosts, host: str) -> None:
    answer = begun(hosts, host, COMMAND, command="seq 1 20000")
    sizes = told(small(hosts.cloud, answer, host))
    assert max(sizes) == 1024
    assert sum(sizes) == sum(len(str(number)) + 1 for number in range(1, 20001))


# --- interruptions ---


class Cut:
    """A path to the endpoint that can be cut: all connections end and new ones fail."""

    def __init__(self, to: int, *after: int) -> None:
        """`after` gives byte counts after which the path is cut and soon restored."""
        self.port = 0
        self.cuts = 0
        self._to = to
        self._after = list(after)
        self._carried = 0
        self._open = True
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._server.close()
        while self._writers:
            await asyncio.sleep(0.01)

    def cut(self) -> None:
        self._open = False
        self.cuts += 1
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        self._open = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers |= {writer, back}
        try:
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        finally:
            self._writers -= {writer, back}
            writer.transport.abort()
            back.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
                self._carried += len(data)
                if self._after and self._carried > self._after[0]:
                    self._after.pop(0)
                    self.cut()
                    asyncio.get_running_loop().call_later(0.2, self.mend)
        writer.transport.abort()


def through(way: Cut, cloud: Cloud, answer: Mapping[str, Any], target: str) -> Link:
    url = answer["StreamUrl"].replace(f":{cloud.port}/", f":{way.port}/")
    session = signing(cloud)
    moved = Session(session.boto, f"http://127.0.0.1:{way.port}")
    return Link(moved, Opened(answer["SessionId"], target, url, answer["TokenValue"]), lambda sentence: None)


def test_a_shell_goes_on_after_a_cut_and_nothing_is_lost(hosts: Hosts, host: str) -> None:
    answer = begun(hosts, host)

    async def story() -> None:
        async with Cut(hosts.cloud.port) as way, heard(through(way, hosts.cloud, answer, host)) as shell:
            type_in(
                shell.link,
                "stty -echo; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo n$i; done; echo do''ne",
            )
            await shell.until(rb"n100\r\n")
            way.cut()
            type_in(shell.link, "echo typed-mean''while")
            await asyncio.sleep(0.1)
            eventually(lambda: status(hosts, answer["SessionId"]) == "Disconnected")
            way.mend()
            await shell.until(rb"typed-meanwhile")
            numbers = re.findall(rb"n(\d+)\r\n", shell.said[Kind.OUTPUT])
            assert [int(each) for each in numbers] == list(range(1, 3001))
            assert status(hosts, answer["SessionId"]) == "Connected"

    told(story())


def test_a_forward_goes_on_after_cuts_and_nothing_is_lost(hosts: Hosts, host: str, echo: int) -> None:
    answer = begun(hosts, host, FORWARD, portNumber=str(echo))

    async def story() -> None:
        async with (
            Cut(hosts.cloud.port, 2_000_000, 7_000_000, 14_000_000) as way,
            forwarded(through(way, hosts.cloud, answer, host)) as (port, _, _flags),
        ):
            data = bytes(range(256)) * 40_000
            assert await asked(port, data) == data + b"end"
            assert way.cuts == 3

    told(story())


def test_a_token_is_replaced_by_the_next_and_the_session_goes_on_with_that(hosts: Hosts, host: str) -> None:
    answer = begun(hosts, host)

    async def story() -> None:
        async with heard(link_to(hosts.cloud, answer, host)) as first:
            type_in(first.link, "kept=for-later; echo fir''st")
            await first.until(rb"first")
        resumed = {**answer, **hosts.ssm.resume_session(SessionId=answer["SessionId"])}
        async with websockets.connect(answer["StreamUrl"], compression=None, open_timeout=60) as old:
            await old.send(handshake.opening_text("r", answer["TokenValue"], "c", "1.2.0.0"))
            with pytest.raises(websockets.ConnectionClosed):
                await old.recv()
        second = link_to(hosts.cloud, resumed, host)
        second.channel = first.link.channel  # its sequence numbers continue
        async with heard(second) as again:
            type_in(second, "echo $kept")
            await again.until(rb"for-later\r\n")

    told(story())


# --- permissions ---


def test_a_session_is_where_its_caller_asked_and_is_told_of(hosts: Hosts, host: str) -> None:
    answer = hosts.ssm.start_session(Target=host, Reason="to look")
    found = hosts.ssm.describe_sessions(
        State="Active", Filters=[{"key": "SessionId", "value": answer["SessionId"]}]
    )
    (shown,) = found["Sessions"]
    assert answer["StreamUrl"].startswith(
        f"ws://127.0.0.1:{hosts.cloud.port}/v1/data-channel/{answer['SessionId']}"
    )
    assert (shown["Target"], shown["DocumentName"], shown["Reason"]) == (
        host,
        "SSM-SessionManagerRunShell",
        "to look",
    )
    assert shown["Owner"] == "arn:aws:iam::123456789012:root"
    assert shown["Status"] == "Connecting"
    assert "EndDate" not in shown
    hosts.ssm.terminate_session(SessionId=answer["SessionId"])
    eventually(lambda: status(hosts, answer["SessionId"]) == "Terminated")
    assert hosts.ssm.get_connection_status(Target=host)["Status"] == "connected"


def may_start(*documents: str, yard: str = "one") -> list[dict[str, Any]]:
    of_yard = {"StringEquals": {"ssm:resourceTag/yard": yard}}
    instances = allow("ssm:StartSession", "arn:aws:ec2:us-east-1:123456789012:instance/*", **of_yard)
    return [instances, allow("ssm:StartSession", list(documents))]


SHELL = f"{ACCOUNT}:document/SSM-SessionManagerRunShell"
PORTS = f"arn:aws:ssm:us-east-1::document/{FORWARD}"


@pytest.mark.parametrize(
    ("documents", "yard", "document", "may"),
    [
        ([SHELL], "one", None, True),
        ([SHELL], "one", "SSM-SessionManagerRunShell", True),
        ([SHELL], "two", None, False),
        ([SHELL], "one", FORWARD, False),
        ([PORTS], "one", FORWARD, True),
        ([PORTS], "one", None, False),
        (["arn:aws:ssm:us-east-1::document/SSM-SessionManagerRunShell"], "one", None, False),
    ],
)
def test_a_session_needs_its_host_and_its_document(
    hosts: Hosts, host: str, documents: Sequence[str], yard: str, document: str | None, may: bool
) -> None:
    ssm = hosts.cloud.client("ssm", hosts.cloud.acting_as(*may_start(*documents, yard=yard)))
    asked_for = {"Target": host, **({"DocumentName": document} if document else {})}
    if may:
        assert ssm.start_session(**asked_for)["SessionId"].startswith("test-")
    else:
        assert error_code(ssm.start_session, **asked_for) == "AccessDeniedException"


def test_the_check_of_documents_may_be_demanded(hosts: Hosts, host: str) -> None:
    demanded = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    may = allow("ssm:StartSession", ["arn:aws:ec2:us-east-1:123456789012:instance/*", SHELL], **demanded)
    ssm = hosts.cloud.client("ssm", hosts.cloud.acting_as(may))
    assert ssm.start_session(Target=host)["SessionId"]
    assert error_code(ssm.start_session, Target=host, DocumentName=FORWARD) == "AccessDeniedException"


OWN = {"StringEquals": {"ssm:resourceTag/aws:ssmmessages:session-id": "${aws:userid}"}}
ENDS = ["ssm:ResumeSession", "ssm:TerminateSession"]


def test_sessions_of_ones_own_alone_by_their_tag(hosts: Hosts, host: str) -> None:
    mine = hosts.cloud.acting_as(*may_start(SHELL), allow(ENDS, f"{ACCOUNT}:session/*", **OWN))
    others = hosts.cloud.acting_as(allow(ENDS, f"{ACCOUNT}:session/*", **OWN))
    session = hosts.cloud.client("ssm", mine).start_session(Target=host)["SessionId"]
    for call in ("resume_session", "terminate_session"):
        assert (
            error_code(getattr(hosts.cloud.client("ssm", others), call), SessionId=session)
            == "AccessDeniedException"
        )
    assert hosts.cloud.client("ssm", mine).resume_session(SessionId=session)["TokenValue"]
    assert hosts.cloud.client("ssm", mine).terminate_session(SessionId=session)["SessionId"] == session


def test_a_users_sessions_begin_with_the_users_name(hosts: Hosts, host: str) -> None:
    iam, name = hosts.cloud.client("iam"), unique("user")
    iam.create_user(UserName=name)
    statement = [*may_start(SHELL), allow(ENDS, f"{ACCOUNT}:session/${{aws:username}}-*")]
    policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
    iam.put_user_policy(UserName=name, PolicyName="sessions", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    ssm = hosts.cloud.client("ssm", Credentials(key["AccessKeyId"], key["SecretAccessKey"]))
    session = ssm.start_session(Target=host)["SessionId"]
    assert re.fullmatch(rf"{name}-[0-9a-z]{{26}}", session)
    assert ssm.terminate_session(SessionId=session)["SessionId"] == session
    other = begun(hosts, host)["SessionId"]
    assert error_code(ssm.terminate_session, SessionId=other) == "AccessDeniedException"


def test_who_signs_the_opening_of_a_channel_must_be_allowed_to(hosts: Hosts, host: str) -> None:
    without = hosts.cloud.acting_as(*may_start(SHELL))
    answer = hosts.cloud.client("ssm", without).start_session(Target=host)

    async def refused() -> None:
        async with link_to(hosts.cloud, answer, host, without).run_channel() as channel:
            async for _ in channel.payloads():
                pass

    with pytest.raises(Denied, match="ssmmessages:OpenDataChannel"):
        told(refused())
    may = hosts.cloud.acting_as(
        *may_start(SHELL), allow("ssmmessages:OpenDataChannel", f"{ACCOUNT}:session/*")
    )

    async def opened() -> None:
        given = hosts.cloud.client("ssm", may).start_session(Target=host)
        async with heard(link_to(hosts.cloud, given, host, may)) as shell:
            type_in(shell.link, "echo o''pen")
            await shell.until(rb"open")

    told(opened())


@pytest.mark.parametrize("pieces", ["ping+token", "ping token", "ping+ping+half half", "half half"])
def test_a_channel_opens_however_its_first_words_come(hosts: Hosts, host: str, pieces: str) -> None:
    """Test packets in any order.

    AWS's plugin pings from another thread, so a ping may come first or in the same packet.
    """
    answer = begun(hosts, host)
    text = handshake.opening_text("r", answer["TokenValue"], "c", "1.2.0.0").encode()
    token = Frame(Opcode.TEXT, text).serialize(mask=True)
    first, last = token[: len(token) // 2], token[len(token) // 2 :]

    async def story() -> None:
        async with websockets.connect(
            answer["StreamUrl"], compression=None, ping_interval=None, open_timeout=60
        ) as way:
            halves = iter((first, last))
            for piece in pieces.split():
                words = {"ping": Frame(Opcode.PING, b"there?").serialize(mask=True), "token": token}
                way.transport.write(b"".join(words.get(word) or next(halves) for word in piece.split("+")))
                await asyncio.sleep(0.2)
            assert isinstance(await way.recv(), bytes), "the shell has its say"

    told(story())


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_channel_is_not_opened_without_its_token(hosts: Hosts, host: str, token: str) -> None:
    answer = begun(hosts, host)

    async def story() -> None:
        async with websockets.connect(answer["StreamUrl"], compression=None, open_timeout=60) as way:
            await way.send(handshake.opening_text("r", token, "c", "1.2.0.0"))
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await way.recv()
            assert closed.value.rcvd
            assert closed.value.rcvd.code == 1008

    told(story())
    assert status(hosts, answer["SessionId"]) == "Connecting"


def test_a_channel_of_no_session_is_refused(hosts: Hosts) -> None:
    async def story() -> int:
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(f"ws://127.0.0.1:{hosts.cloud.port}/v1/data-channel/nobody-0"):
                pass
        return refused.value.response.status_code

    assert told(story()) == 404


def test_a_client_that_says_nothing_is_let_go(hosts: Hosts, host: str) -> None:
    """Test silent clients, and those that send no HTTP or half of it."""
    answer = begun(hosts, host)
    for said in (b"GET /v1/data-channel/x HTTP/1.1\r\n\r\n", b"GET /v1/data-channel/ \r\n\r\n"):
        with socket.create_connection(("127.0.0.1", hosts.cloud.port), 10) as plain:
            plain.sendall(said)
            assert plain.recv(100).startswith(b"HTTP/1.1 400")
    assert status(hosts, answer["SessionId"]) == "Connecting"


# --- invalid targets and documents ---


def test_a_host_whose_role_lets_its_agent_have_none_is_not_connected(hosts: Hosts) -> None:
    without = hosts.launch(IamInstanceProfile={"Name": hosts.make_profile(REGISTER)})[0]
    hosts.registered([without])
    assert hosts.ssm.get_connection_status(Target=without)["Status"] == "notconnected"
    assert error_code(hosts.ssm.start_session, Target=without) == "TargetNotConnected"


def test_a_host_that_is_stopped_ends_its_sessions_and_has_no_new_ones(hosts: Hosts) -> None:
    host = hosts.one()
    answer = begun(hosts, host)

    async def story() -> None:
        link = link_to(hosts.cloud, answer, host)
        async with heard(link) as shell:
            type_in(link, "echo o''n")
            await shell.until(rb"on")
            hosts.ec2.stop_instances(InstanceIds=[host])
            while link.channel.closed is None:
                await asyncio.sleep(0.01)
            assert link.channel.closed.output == "the instance is going down"

    told(story())
    eventually(lambda: status(hosts, answer["SessionId"]) == "Terminated")
    assert error_code(hosts.ssm.start_session, Target=host) == "TargetNotConnected"


def test_a_host_that_vanishes_ends_its_sessions(hosts: Hosts) -> None:
    host = hosts.one()
    answer = begun(hosts, host)

    async def story() -> None:
        async with link_to(hosts.cloud, answer, host).run_channel() as channel:
            hosts.cloud.admin("POST", "/faults/kill", {"instance_id": host})
            async for _ in channel.payloads():
                pass

    with pytest.raises(SessionOver):
        told(story())
    eventually(lambda: status(hosts, answer["SessionId"]) == "Failed")


def test_a_host_that_is_cut_off_says_nothing_until_it_is_back(hosts: Hosts) -> None:
    host = hosts.one()
    answer = begun(hosts, host)

    async def story() -> None:
        async with heard(link_to(hosts.cloud, answer, host)) as shell:
            type_in(shell.link, "echo o''n")
            await shell.until(rb"on")
            hosts.cloud.admin("POST", "/faults/cut", {"instance_id": host})
            assert error_code(hosts.ssm.start_session, Target=host) == "TargetNotConnected"
            await asyncio.sleep(0.5)
            type_in(shell.link, "echo la''ter")
            await asyncio.sleep(0.5)
            assert b"later" not in shell.said[Kind.OUTPUT]
            hosts.cloud.admin("POST", "/faults/clear", {})
            await shell.until(rb"later")

    told(story())


@pytest.mark.parametrize(
    ("asked_for", "code"),
    [
        ({"DocumentName": "AWS-StartPortForwardingSessionToRemoteHost"}, "InvalidDocument"),
        ({"DocumentName": "AWS-RunShellScript"}, "InvalidDocument"),
        ({"DocumentName": FORWARD, "Parameters": {"portNumber": ["70000"]}}, "InvalidParameters"),
        ({"DocumentName": FORWARD, "Parameters": {"host": ["elsewhere"]}}, "InvalidParameters"),
        ({"DocumentName": COMMAND}, "InvalidParameters"),
        ({"Target": "i-0123456789abcdef0"}, "TargetNotConnected"),
    ],
)
def test_what_cannot_be_is_refused(hosts: Hosts, host: str, asked_for: dict[str, Any], code: str) -> None:
    assert error_code(hosts.ssm.start_session, **{"Target": host, **asked_for}) == code


@pytest.mark.parametrize(
    "content",
    [
        {"schemaVersion": "1.0", "sessionType": "Nonsense"},
        {"schemaVersion": "1.0", "sessionType": "Port", "properties": {"portNumber": "{{ port }}"}},
        {"schemaVersion": "1.0", "sessionType": "Standard_Stream", "inputs": {"idleSessionTimeout": "61"}},
        {"schemaVersion": "1.0", "sessionType": "Standard_Stream", "steps": []},
        {
            "schemaVersion": "2.2",
            "mainSteps": [{"action": "aws:runShellScript", "name": "a", "inputs": {"runCommand": ["true"]}}],
        },
    ],
)
def test_a_document_for_sessions_has_their_schema(hosts: Hosts, content: dict[str, Any]) -> None:
    made = {"Name": unique("session"), "DocumentType": "Session", "Content": json.dumps(content)}
    assert error_code(hosts.ssm.create_document, **made) == "InvalidDocumentContent"


# --- other readers ---


def test_patrol_sees_on_which_hosts_somebody_is(hosts: Hosts) -> None:
    one, other = hosts.launch(2)
    session = begun(hosts, one)["SessionId"]
    with answering(hosts.cloud, hosts.cloud.acting_as(allow("ssm:DescribeSessions"))):
        seen = ssm.list_sessions()
        assert one in seen
        assert other not in seen
        hosts.ssm.terminate_session(SessionId=session)
        eventually(lambda: one not in ssm.list_sessions())


# --- time ---


def test_time_ends_what_is_idle_and_what_lasts_too_long(tmp_path: Path) -> None:
    """Test timeouts in a cloud whose minute is a second."""
    settings = tmp_path / "settings.yaml"
    text = (Path(__file__).parents[1] / "settings.yaml").read_text()
    settings.write_text(f"{text}\nsessions: {{minute_seconds: 1}}\n")
    cloud = Cloud(tmp_path / "state", free_port(), settings)
    cloud.up()
    try:
        hosts = Hosts(cloud, "")
        hosts.profile = hosts.make_profile(REGISTER, CHANNELS)
        host = hosts.one()
        content = {
            "schemaVersion": "1.0",
            "sessionType": "Standard_Stream",
            "inputs": {"idleSessionTimeout": "2"},
        }
        long = {**content, "inputs": {"idleSessionTimeout": "60", "maxSessionDuration": "3"}}
        for name, document in (("idle", content), ("long", long)):
            hosts.ssm.create_document(Name=name, Content=json.dumps(document), DocumentType="Session")

        async def story(document: str, keep_busy: bool) -> tuple[float, str]:
            link = link_to(cloud, begun(hosts, host, document), host)
            async with link.run_channel() as channel:
                began = time.monotonic()
                if keep_busy:
                    type_in(link, "while sleep 0.1; do echo x; done")
                async for _ in channel.payloads():
                    pass
                assert channel.closed is not None
                return time.monotonic() - began, channel.closed.output

        took, why = told(story("idle", keep_busy=False))
        assert took > 1.5
        assert "idle" in why
        took, why = told(story("long", keep_busy=True))
        assert took > 2.5
        assert "maximum duration" in why
    finally:
        cloud.command("down", check=False)


def test_what_is_over_is_still_told_after_a_restart(own_cloud: Cloud) -> None:
    hosts = Hosts(own_cloud, "")
    hosts.profile = hosts.make_profile(REGISTER, CHANNELS)
    session = begun(hosts, hosts.one())["SessionId"]
    hosts.ssm.terminate_session(SessionId=session)
    eventually(lambda: status(hosts, session) == "Terminated")
    own_cloud.down()
    own_cloud.up()
    assert status(hosts, session) == "Terminated"
    with pytest.raises(ClientError):
        hosts.ssm.resume_session(SessionId=session)
