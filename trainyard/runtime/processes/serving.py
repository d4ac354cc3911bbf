"""Parameter servers and their workers: serve the chief until it is gone."""

import time
from pathlib import Path
from typing import NoReturn

import tensorflow as tf

from trainyard.protocol.processes import RESTART
from trainyard.runtime import worker_local
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.exiting import FINISHED, PEER_ERRORS, leave
from trainyard.runtime.processes.forming import answers, leave_without, use_processors, wait_for
from trainyard.runtime.processes.place import Place

LOOK_SECONDS = 0.5
GONE_AFTER_LOOKS = 6


def serve(place: Place, environment: Environment) -> NoReturn:
    """Serve the chief until its port has been closed for 3 s.

    Exit with 0 after the chief's shutdown notice, else with RESTART. SIGTERM is ignored, because the chief still saves
    the variables of the parameter servers.
    """
    notice = _shutdown_notice(environment, place.role, place.index)
    notice.unlink(missing_ok=True)
    if place.role == "worker":
        worker_local.write_records(environment, place.index)
    use_processors()
    server = tf.distribute.Server(
        tf.train.ClusterSpec({role: list(members) for role, members in place.members.items()}),
        job_name=place.role,
        task_index=place.index,
        protocol="grpc",
    )
    print(f"{place.name} serves at {server.target}", flush=True)
    chief = place.members["chief"][0]
    leave_without(wait_for([chief], environment.form_seconds), place, environment.form_seconds)
    unanswered = 0
    while unanswered < GONE_AFTER_LOOKS:
        time.sleep(LOOK_SECONDS)
        unanswered = 0 if answers(chief) else unanswered + 1
    if notice.exists():
        leave(FINISHED, f"{place.name} ends: the chief has finished")
    leave(RESTART, f"a peer is gone (no answer from the chief at {chief}); stopping for a restart")


def send_shutdown_notice(place: Place, environment: Environment) -> None:
    """Send the shutdown notice from the chief, as a file on each serving process."""
    for role in ("worker", "ps"):
        for index in range(len(place.members[role])):
            try:
                with tf.device(f"/job:{role}/task:{index}/device:CPU:0"):
                    tf.io.write_file(str(_shutdown_notice(environment, role, index)), "finished")
            except PEER_ERRORS:
                print(f"{role} {index} did not get the shutdown notice", flush=True)


def _shutdown_notice(environment: Environment, role: str, index: int) -> Path:
    return environment.progress.absolute().parent / f"shutdown-notice-{role}-{index}"
