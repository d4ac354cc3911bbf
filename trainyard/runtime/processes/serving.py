"""Processes that serve the chief until it is gone: parameter servers, their workers, and hosts that lend devices."""

import signal
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime import worker_local
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.exiting import FINISHED, PEER_ERRORS, leave
from trainyard.runtime.processes.forming import answers, leave_without, use_processors, wait_for
from trainyard.runtime.processes.place import Place

LOOK_SECONDS = 0.5
GONE_SECONDS = 3.0
LENT_GONE_SECONDS = 10.0
"""A host that lends its devices waits longer, because its chief may be reached again."""


def serve(place: Place, environment: Environment) -> NoReturn:
    """Serve the chief of parameter servers until its port has been closed for 3 s.

    Exit with 0 after the chief's shutdown notice, else with RESTART. SIGTERM is ignored, because the chief still saves
    the variables of the parameter servers.
    """
    if place.role == "worker":
        worker_local.write_records(environment, place.index)
    _start_server(place, environment)
    _wait_until_gone(place, GONE_SECONDS)
    _leave(place, environment)


def lend(place: Place, environment: Environment) -> NoReturn:
    """Serve a chief that uses this host's devices until its port has been closed for 10 s.

    Exit with 0 after the chief's shutdown notice, else with RESTART. After SIGTERM, serve on until the chief has saved:
    the chief finds the leave notice.
    """
    wish = leave_notice(environment, place.index)
    wish.unlink(missing_ok=True)
    _start_server(place, environment)

    def asked(number: int, frame: FrameType | None) -> None:
        wish.touch()

    signal.signal(signal.SIGTERM, asked)
    _wait_until_gone(place, LENT_GONE_SECONDS, leaves=wish)
    _leave(place, environment)


def _start_server(place: Place, environment: Environment) -> None:
    """Start TensorFlow's server, and wait for the chief. Exit for a restart if it does not come."""
    _shutdown_notice(environment, place.role, place.index).unlink(missing_ok=True)
    use_processors()
    server = tf.distribute.Server(
        tf.train.ClusterSpec({role: list(members) for role, members in place.members.items()}),
        job_name=place.role,
        task_index=place.index,
        protocol="grpc",
    )
    SERVERS.append(server)
    print(f"{place.name} serves at {server.target}", flush=True)
    leave_without(wait_for(place.trainers[:1], environment.form_seconds), place, environment.form_seconds)


SERVERS: list[tf.distribute.Server] = []
"""The server of this process, kept until the process ends."""


def _wait_until_gone(place: Place, seconds: float, *, leaves: Path | None = None) -> None:
    """Wait until the chief has not answered for `seconds`, or for 3 s if this process was asked to leave."""
    answered = time.monotonic()
    while time.monotonic() - answered < (GONE_SECONDS if leaves and leaves.exists() else seconds):
        time.sleep(LOOK_SECONDS)
        if answers(place.trainers[0]):
            answered = time.monotonic()


def _leave(place: Place, environment: Environment) -> NoReturn:
    if _shutdown_notice(environment, place.role, place.index).exists():
        leave(FINISHED, f"{place.name} ends: the chief has finished")
    leave(
        RESTART,
        f"a peer is gone (no answer from the chief at {place.trainers[0]}); stopping for a restart",
    )


def send_shutdown_notice(place: Place, environment: Environment) -> None:
    """Send the shutdown notice from the chief, as a file on each serving process."""
    for role in ("worker", "ps"):
        for index in range(len(place.members.get(role, ()))):
            if (role, index) == (place.role, place.index):
                continue
            try:
                with tf.device(f"/job:{role}/task:{index}/device:CPU:0"):
                    notice = str(_shutdown_notice(environment, role, index))
                    tf.io.write_file(notice, "finished")
                    tf.io.read_file(
                        notice
                    ).numpy()  # waits: TensorFlow runs operations on other hosts asynchronously
            except PEER_ERRORS:
                print(f"{role} {index} did not get the shutdown notice", flush=True)


def leave_notice(environment: Environment, index: int) -> Path:
    """Return the file on a worker that lends its devices, and that exists once this worker has to leave."""
    return environment.progress.absolute().parent / f"leave-notice-worker-{index}"


def _shutdown_notice(environment: Environment, role: str, index: int) -> Path:
    return environment.progress.absolute().parent / f"shutdown-notice-{role}-{index}"
