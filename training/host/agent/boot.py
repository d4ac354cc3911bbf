"""The start of the agent: find out this host's purpose, and what to do without a run."""

import logging
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial

from training.host import account, credentials, fence, orders
from training.host.agent import systems_manager
from training.host.agent.agent import Agent
from training.host.agent.deadlines import hold
from training.host.agent.tags import lease_of, renew_lease, run_tags
from training.host.agent.watchdog import Watchdog, power_off
from training.host.credentials import CALLS
from training.host.dev import jupyter, owner, serve
from training.host.dev.idle import watch
from training.host.dev.idle.kernels import Server
from training.host.errors import HostTrouble
from training.host.image import disk_identity
from training.host.metadata import Identity, Metadata
from training.host.paths import Paths
from training.host.periodic import Repeat
from training.host.pool import waiting
from training.host.reporting import gpus
from trainyard import command_line
from trainyard.protocol.tags import Tag

logger = logging.getLogger(__name__)


def run(paths: Paths) -> None:
    """Run the agent. Return only if this host has nothing to do."""
    metadata = Metadata()
    identity = _once_it_has_a_run(paths, metadata, metadata.await_identity())
    with command_line.repeat_options(
        command_line.yard_options(identity.tags.get(Tag.YARD, command_line.DEFAULT_YARD))
    ):
        _serve(paths, metadata, identity)


def _serve(paths: Paths, metadata: Metadata, identity: Identity) -> None:
    now = datetime.now(UTC)
    identity = renew_lease(paths, identity, now=now)
    try:
        disk_identity.take_over(paths, identity)
    except OSError as error:  # a full disk is reported later, when signals can be sent
        logger.warning("this instance cannot take over its disk: %s", error)
    measuring = _measure(identity, now)
    if Tag.YARD in identity.tags:
        _help_systems_manager(paths, now)
    if _is_generalized(paths, identity):
        logger.info("this instance was generalized for an image: staying quiet")
        _stay_quiet(metadata, identity, measuring, now)
        return
    tags = run_tags(identity, now=now)
    if tags is None:
        logger.info(
            "no attempt of a run is tagged on this instance (%s): staying quiet", ", ".join(identity.tags)
        )
        if Tag.YARD in identity.tags:
            _shut_out_runs()
        if Tag.DEV in identity.tags:
            _serve_jupyter(paths)
            server = Server(serve.ADDRESS, serve.PORT, paths.jupyter_token)
            watch.begin(paths, identity, server, now=now)
            owner.begin(paths, identity)
        _stay_quiet(metadata, identity, measuring, now)
        return
    with orders.presence(paths):
        programs = account.find()
        put_up = partial(fence.put_up, programs)
        agent = Agent(
            paths, metadata, identity, tags, account=programs, put_up_fence=put_up, power_off=power_off
        )
        signal.signal(signal.SIGTERM, agent.go_down)
        agent.work()
    if agent.is_to_wait:
        restart()


def restart() -> None:
    """Restart this process, so that no thread, client, or credentials of the run remain."""
    logger.info("the run has ended, and this host waits for another run: restarting the agent")
    os.execv(sys.executable, [sys.executable, "-m", "training.host", "run"])  # noqa: S606 - as the boot unit does


def _once_it_has_a_run(paths: Paths, metadata: Metadata, identity: Identity) -> Identity:
    """Wipe a host of the warm pool and wait for its next run. Return the identity at once for any other host."""
    return waiting.wait_if_warm(
        paths,
        metadata,
        identity,
        find_account=account.find,
        account_name=account.NAME,
        put_up_fence=fence.put_up,
        events=lambda region: credentials.host_session(region).client("events", config=CALLS),
        power_off=power_off,
    )


def _is_generalized(paths: Paths, identity: Identity) -> bool:
    try:
        return paths.generalized.read_text() == identity.instance
    except FileNotFoundError:
        return False


def _measure(identity: Identity, now: datetime) -> Repeat | None:
    """Publish GPU metrics if the CloudWatch agent's do not arrive. Return None for a host without any."""
    if not gpus.are_wanted(identity.tags):
        return None
    client = credentials.host_session(identity.region).client("cloudwatch", config=CALLS)
    metrics = gpus.GpuMetrics(client, identity.instance, born=now)
    measuring = Repeat("gpu metrics", lambda _: metrics.turn(datetime.now(UTC)), every=gpus.INTERVAL_SECONDS)
    measuring.start()
    return measuring


def _help_systems_manager(paths: Paths, now: datetime) -> None:
    beside = systems_manager.SsmAgent(paths.ssm_errors, now, restart=systems_manager.restart)
    Repeat(
        "Systems Manager's agent",
        lambda _: beside.turn(datetime.now(UTC)),
        every=systems_manager.LOOK_SECONDS,
    ).start()


def _shut_out_runs() -> None:
    """Keep the programs of runs from connecting to this dev host."""
    try:
        fence.put_up(account.find())
    except HostTrouble as trouble:
        logger.warning("%s", trouble.reason)


def _serve_jupyter(paths: Paths) -> None:
    """Start JupyterLab, if the image has it, as a unit of its own that outlives this agent."""
    try:
        if paths.jupyter.exists():
            jupyter.start()
    except (OSError, subprocess.CalledProcessError) as error:
        logger.warning("JupyterLab could not be started: %s", error)


def _stay_quiet(metadata: Metadata, identity: Identity, measuring: Repeat | None, now: datetime) -> None:
    """Wait until the lease of a host of the yard ends. On any other machine, wait only for the metrics thread."""
    if Tag.LEASE in identity.tags:
        watchdog = Watchdog(
            metadata, lease_of(identity, now=now), power_off, held=hold.held_until(identity.tags)
        )
        watchdog.start()
        watchdog.join()
    elif measuring:
        measuring.join()
