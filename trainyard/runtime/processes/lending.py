"""Hosts that lend their devices to worker 0, the chief, which places operations on them by `tf.device`."""

import math
import time

import tensorflow as tf

from trainyard.protocol.cluster import Strategy
from trainyard.runtime.environment import Environment
from trainyard.runtime.processes.cluster import Cluster, listen_for_sigterm
from trainyard.runtime.processes.exiting import leave_when_a_peer_is_gone
from trainyard.runtime.processes.forming import any_is_gone, leave_without, use_processors, wait_for
from trainyard.runtime.processes.place import Place, refuse_other_jobs
from trainyard.runtime.processes.serving import leave_notice, lend, send_shutdown_notice
from trainyard.runtime.processes.watch import Watch
from trainyard.values.quantities import format_count

JOB = "/job:worker/replica:0/task"
ASK_SECONDS = 1.0


class Lent(Cluster):
    """The chief's cluster. Its strategy is TensorFlow's default one, so only `tf.device` uses the other hosts."""

    def __init__(self, place: Place, environment: Environment) -> None:
        super().__init__(place, Strategy.SINGLE, tf.distribute.get_strategy())
        self._environment = environment
        self._asked_at = time.monotonic()
        self._watch = Watch(vital=place.others(), helpers={})
        self._watch.saw(0, patience=math.inf)  # a step may take any time
        self._watch.__enter__()

    @property
    def workers(self) -> int:
        """Return 1: only the chief computes gradients, on the devices of all hosts."""
        return 1

    @property
    def devices(self) -> list[str]:
        """Return the first GPU of each host in the order of the workers, or its processor if it has no GPU."""
        if not self.place.members:
            return ["/device:GPU:0" if tf.config.list_logical_devices("GPU") else "/device:CPU:0"]
        names = [device.name for device in tf.config.list_logical_devices("GPU")]
        hosts = [f"{JOB}:{index}/device:" for index in range(len(self.place.trainers))]
        return [f"{host}GPU:0" if f"{host}GPU:0" in names else f"{host}CPU:0" for host in hosts]

    @property
    def file_device(self) -> str | None:
        """Return the chief's processor. Variables on other hosts would otherwise be saved there."""
        return f"{JOB}:0/device:CPU:0" if self.place.members else None

    def must_leave(self) -> bool:
        """Return True if this host or one that lends its devices has received SIGTERM."""
        if not self.asked_to_leave and time.monotonic() - self._asked_at >= ASK_SECONDS:
            self.asked_to_leave = any(map(self._wants_to_leave, range(1, len(self.place.trainers))))
            self._asked_at = time.monotonic()
        return self.asked_to_leave

    def finish(self, environment: Environment) -> None:
        """Send every host that lends its devices a notice that it may exit with success."""
        self._watch.__exit__(None, None, None)
        send_shutdown_notice(self.place, environment)

    def _wants_to_leave(self, worker: int) -> bool:
        with tf.device(f"{JOB}:{worker}/device:CPU:0"):
            found = tf.io.matching_files(str(leave_notice(self._environment, worker)))
        return bool(found.shape[0])


def borrow(environment: Environment) -> Lent:
    """Return the cluster on the chief once every other worker serves. On the other workers, serve and never return."""
    place = Place.from_tf_config(environment.tf_config)
    refuse_other_jobs("serve", place, environment)
    if place.members and not place.is_chief:
        lend(place, environment)
    use_processors()
    if place.members:
        seconds = environment.form_seconds
        leave_without(wait_for(place.others(), seconds), place, seconds)
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec({"worker": list(place.trainers)}), job_name="worker", task_index=0
        )
        leave_when_a_peer_is_gone(lambda: any_is_gone(place.others()))
    cluster = Lent(place, environment)
    listen_for_sigterm(cluster)
    print(f"{place.name} uses {format_count(len(cluster.devices), 'host')}: {cluster.devices}", flush=True)
    return cluster
