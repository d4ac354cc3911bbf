"""The SSM agent of every host: register with the host's role, run commands, report results, upload output.

It runs in the server but acts as the host. Its AWS calls use the credentials from the host's metadata service. A role
without `ssm:UpdateInstanceInformation` therefore never registers, and one without `s3:PutObject` uploads no output.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError, ClientError
from botocore.httpsession import URLLib3Session

from localcloud.base.background import in_background
from localcloud.base.injected import Lasting
from localcloud.base.settings import Spread
from localcloud.machine.hypervisor import Execution, HostNotRunningError, Hypervisor, Machine, Result
from localcloud.services.ssm.commands import Command, Commands, Invocation, StepRun
from localcloud.services.ssm.document import SHELL, Script

log = logging.getLogger(__name__)

VERSION = "3.3.4793.0"
WORKERS = 5
PING_SECONDS = 300.0
POLL_SECONDS = 0.5
RETRY_SECONDS = 5.0
ERRORS = Path("/var/log/amazon/ssm/errors.log")
STDOUT_LIMIT, STDERR_LIMIT = 24000, 8000
TRUNCATED = "--output truncated--"
KILLED = 137

unknown = Lasting()
"""Hosts hidden from Systems Manager by a fault."""


@dataclass
class Registration:
    """A host's entry in DescribeInstanceInformation."""

    machine: Machine
    registered: float
    last_ping: float


@dataclass
class Agent:
    """The agent of one host. It runs up to WORKERS commands at once and queues the others."""

    machine: Machine
    gone: threading.Event = field(default_factory=threading.Event)
    registration: Registration | None = None
    waiting: deque[tuple[Command, Invocation]] = field(default_factory=deque)
    workers: int = 0
    running: dict[str, Execution] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Agents:
    """Agents of all running hosts.

    `boot_seconds` is the time from the host's boot to the agent's first call (None: never).
    """

    hypervisor: Hypervisor
    commands: Commands
    _: KW_ONLY
    endpoint: str
    output: Path
    boot_seconds: Spread | None
    now: Callable[[], float]

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._chance = Random()
        self._agents: dict[str, Agent] = {}
        self.commands.deliver = self.deliver
        self.commands.stop = self.stop

    # --- called by the hypervisor ---

    def host_changed(self, instance_id: str, what: str, reason: str) -> None:
        with self._lock:
            agent = self._agents.pop(instance_id, None)
        if agent is not None:
            agent.gone.set()
        if what == "running":
            machine = self.hypervisor.running().get(instance_id)
            if machine is not None:  # the host may have died in the meantime
                self._start(machine)

    def _start(self, machine: Machine) -> None:
        agent = Agent(machine)
        with self._lock:
            self._agents[machine.instance_id] = agent
        if self.boot_seconds is not None:
            pause = self.boot_seconds.draw(self._chance)
            in_background(f"ssm agent {machine.instance_id}", lambda: self._stay_registered(agent, pause))

    # --- called by the service ---

    def list_registered(self) -> dict[str, Registration]:
        missing = unknown.active()
        with self._lock:
            found = {name: agent.registration for name, agent in self._agents.items() if name not in missing}
        return {
            name: registration for name, registration in sorted(found.items()) if registration is not None
        }

    def tags(self, instance_id: str) -> Mapping[str, str]:
        return self.hypervisor.metadata(instance_id).tags

    # --- called by Commands ---

    def deliver(self, command: Command, invocation: Invocation) -> None:
        """Hand a command to a host's agent. If the host is gone, only the deadline ends the command."""
        with self._lock:
            agent = self._agents.get(invocation.instance_id)
            if agent is None:
                return
            agent.waiting.append((command, invocation))
            if agent.workers < WORKERS:
                agent.workers += 1
                in_background(f"ssm worker {invocation.instance_id}", lambda: self._work(agent))

    def stop(self, invocation: Invocation) -> None:
        with self._lock:
            agent = self._agents.get(invocation.instance_id)
            if agent is None:
                return
            agent.cancelled.add(invocation.command_id)
            execution = agent.running.get(invocation.command_id)
        if execution is not None:
            execution.cancel()

    # --- registration ---

    def _stay_registered(self, agent: Agent, pause: float) -> None:
        while not agent.gone.wait(pause):
            if self.hypervisor.impairments(agent.machine.instance_id):
                pause = RETRY_SECONDS
                continue
            refusal = self._ping(agent.machine)
            pause = RETRY_SECONDS if refusal else PING_SECONDS
            if refusal:
                log.info("%s does not register with SSM: %s", agent.machine.instance_id, refusal)
                self._log_on_host(agent.machine, refusal)
                continue
            with self._lock:
                registered = agent.registration.registered if agent.registration else self.now()
                agent.registration = Registration(agent.machine, registered, self.now())

    def _log_on_host(self, machine: Machine, refusal: str) -> None:
        """Write the refusal to the agent's log on the host's disk, as on AWS."""
        line = f"ERROR [HealthCheck] error when calling AWS APIs. error details - {refusal}"
        write = f'mkdir -p {ERRORS.parent} && printf "%s %s\\n" "$(date -u "+%F %T")" "$LINE" >> {ERRORS}'
        try:
            self.hypervisor.execute(machine.instance_id, ["/bin/sh", "-c", write], {"LINE": line}, 10.0)
        except HostNotRunningError:
            return  # the host went down in the meantime, and its log with it

    def _ping(self, machine: Machine) -> str | None:
        """Call UpdateInstanceInformation as the host. Return the refusal or None.

        The operation is not public, so botocore has no client for it and the request is signed here.
        """
        credentials = self._credentials(machine)
        if credentials is None:
            return "the instance has no role"
        request = AWSRequest(
            "POST",
            self.endpoint + "/",
            data=b'{"InstanceId": "%s"}' % machine.instance_id.encode(),
            headers={
                "X-Amz-Target": "AmazonSSM.UpdateInstanceInformation",
                "Content-Type": "application/x-amz-json-1.1",
            },
        )
        SigV4Auth(Credentials(*credentials), "ssm", machine.region).add_auth(request)
        try:
            response = URLLib3Session().send(request.prepare())
        except BotoCoreError as error:
            return str(error)
        return None if response.status_code == 200 else response.text

    def _credentials(self, machine: Machine) -> tuple[str, str, str] | None:
        details = self.hypervisor.metadata(machine.instance_id)
        if machine.role is None or details.credentials is None:
            return None
        given = details.credentials
        return given["AccessKeyId"], given["SecretAccessKey"], given["Token"]

    # --- commands ---

    def _work(self, agent: Agent) -> None:
        """Run invocations until none waits or the host is gone."""
        while True:
            self._wait_until_reachable(agent)
            with self._lock:
                if agent.gone.is_set() or not agent.waiting:
                    agent.workers -= 1
                    return
                command, invocation = agent.waiting.popleft()
            if self.commands.record_delivery(invocation):
                self._run(agent, command, invocation)

    def _wait_until_reachable(self, agent: Agent) -> None:
        """Wait while the host is frozen or disconnected, because its agent does no work then."""
        while self.hypervisor.impairments(agent.machine.instance_id) and not agent.gone.wait(POLL_SECONDS):
            pass

    def _run(self, agent: Agent, command: Command, invocation: Invocation) -> None:
        worst = ("Success", "Success")
        leaving = False
        for script, step in zip(command.scripts, invocation.steps, strict=True):
            if leaving and not script.is_final:
                self.commands.step_ended(step, "Success", "Success", 0, "Step execution skipped.", "")
                continue
            answer = self._run_step(agent, command, script, step)
            if answer is None:
                return  # the host vanished, so no agent remains to report
            if answer[0] != "Success":
                worst = answer
                leaving = leaving or script.on_failure_exit or answer[0] == "Cancelled"
            else:
                leaving = leaving or script.on_success_exit
        self.commands.record_end(invocation, *worst)

    def _run_step(
        self, agent: Agent, command: Command, script: Script, step: StepRun
    ) -> tuple[str, str] | None:
        """Run a step. Return its status and details, or None if the host vanished."""
        if script.skipped is not None:
            self.commands.step_ended(step, "Success", "Success", 0, script.skipped, "")
            return "Success", "Success"
        if script.action != SHELL:
            why = f"Plugin with name {script.action} is not supported in this local cloud"
            self.commands.step_ended(step, "Failed", "Failed", 1, "", why)
            return "Failed", "Failed"
        self.commands.step_started(step)
        folder = self.output / command.id / agent.machine.instance_id / script.name.replace(":", "")
        result = self._execute(agent, command, script, folder)
        if result is None or result.ending == "vanished":
            return None
        status, details = outcome(result)
        stdout = read_start(folder / "stdout", STDOUT_LIMIT)
        stderr = read_start(folder / "stderr", STDERR_LIMIT - 100) + failure_line(result)
        code = KILLED if result.ending != "exited" else result.exit_code or 0
        self._wait_until_reachable(agent)
        self._upload(agent.machine, command, script, folder)
        self.commands.step_ended(step, status, details, code, stdout, stderr)
        return status, details

    def _execute(self, agent: Agent, command: Command, script: Script, folder: Path) -> Result | None:
        machine = agent.machine
        env = {
            "SSM_COMMAND_ID": command.id,
            "AWS_SSM_INSTANCE_ID": machine.instance_id,
            "AWS_SSM_REGION_NAME": machine.region,
            "AWS_SSM_PLATFORM_NAME": "Ubuntu",
            "AWS_SSM_PLATFORM_VERSION": "24.04",
            **script.env,
        }
        with self._lock:
            if command.id in agent.cancelled:
                return Result("cancelled", KILLED)
            try:
                execution = self.hypervisor.execute(
                    machine.instance_id,
                    ["/bin/sh", "-c", script.text],
                    env,
                    script.timeout,
                    output=folder,
                    cwd=script.cwd,
                )
            except HostNotRunningError:
                return None
            agent.running[command.id] = execution
        try:
            return execution.wait()
        finally:
            with self._lock:
                agent.running.pop(command.id, None)

    def _upload(self, machine: Machine, command: Command, script: Script, folder: Path) -> None:
        """Upload output to S3 with the host's credentials. As on AWS, a refusal is only logged."""
        credentials = self._credentials(machine)
        if not command.bucket or credentials is None:
            return
        s3: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=machine.region,
            aws_access_key_id=credentials[0],
            aws_secret_access_key=credentials[1],
            aws_session_token=credentials[2],
            config=Config(s3={"addressing_style": "path"}),
        )
        with closing(s3):
            for name in ("stdout", "stderr"):
                if (folder / name).stat().st_size == 0:
                    continue
                key = output_key(command, machine.instance_id, script.action, script.name, name)
                try:
                    s3.put_object(Bucket=command.bucket, Key=key, Body=(folder / name).read_bytes())
                except (ClientError, BotoCoreError) as error:
                    log.warning(
                        "%s: output of %s was not uploaded: %s", machine.instance_id, command.id, error
                    )


def outcome(result: Result) -> tuple[str, str]:
    match result.ending:
        case "timed-out":
            return "TimedOut", "ExecutionTimedOut"
        case "cancelled":
            return "Cancelled", "Cancelled"
        case _:
            return ("Success", "Success") if result.exit_code == 0 else ("Failed", "Failed")


def failure_line(result: Result) -> str:
    """Return the agent's last line on stderr after a failed script."""
    if result.ending == "timed-out":
        return "failed to run commands: signal: killed (execution timed out)"
    if result.ending == "cancelled":
        return "failed to run commands: signal: killed"
    return f"failed to run commands: exit status {result.exit_code}" if result.exit_code else ""


def read_start(path: Path, limit: int) -> str:
    """Return the first characters of a file, with a mark if more follow."""
    with path.open("rb") as file:
        text = file.read(4 * limit + 4).decode(errors="replace")
    return text if len(text) <= limit else text[: limit - len(TRUNCATED)] + TRUNCATED


def output_key(command: Command, instance_id: str, action: str, step: str, stream: str) -> str:
    folder = f"{command.id}/{instance_id}/{action.replace(':', '')}/{step.replace(':', '')}/{stream}"
    return f"{command.prefix.rstrip('/')}/{folder}" if command.prefix else folder
