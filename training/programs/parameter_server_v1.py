"""Handwritten digits with TensorFlow 1's parameter servers: ClusterSpec, Server, replica_device_setter.

The style of 2017, through tf.compat.v1, for users with such programs: flags name the processes, worker 0 is the chief,
MonitoredTrainingSession initializes, saves, and restores, and StopAtStepHook ends the training. Asynchronous plain SGD.

    python -m training.programs.parameter_server_v1 --ps_hosts A:1 --worker_hosts B:1,C:1 --job_name ps --task_index 0

The job file sets the flags with ${ps_hosts}, ${worker_hosts}, ${job_name}, and ${task_index}. Without hosts, the
program trains in a single process. TensorFlow 1 would sometimes wait forever. This program has deadlines: a process
that waits too long for a session, or loses a parameter server, leaves with the exit code that requests a restart."""

import argparse
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from training.programs import mnist
from training.programs.arguments import SHOWN, at_least, parser_of
from training.programs.between_graph import (
    LOOK_SECONDS,
    Assignment,
    end_queue,
    limit_wait,
    report_done,
    report_end,
    v1,
    wait_for_the_chief,
    wait_for_the_others,
)
from training.programs.classification import evaluate, is_right, losses
from training.programs.datasets import idx
from trainyard.protocol.cluster import Strategy
from trainyard.protocol.processes import RESTART
from trainyard.runtime import Runtime
from trainyard.runtime.environment import Environment
from trainyard.runtime.export import classifier
from trainyard.runtime.metrics import Reporter
from trainyard.runtime.plan import Plan, Resumed, Step
from trainyard.runtime.processes.cluster import Cluster
from trainyard.runtime.processes.exiting import FINISHED, leave, leave_when_a_peer_is_gone
from trainyard.runtime.processes.forming import answers, use_processors
from trainyard.runtime.processes.place import Place
from trainyard.runtime.processes.watch import STALLED_SECONDS, Watch

GONE_AFTER_LOOKS = 6
SUMMARY_STEPS = 20


@dataclass(frozen=True, slots=True)
class Training:
    """The inputs and outputs of the training graph."""

    images: Any
    labels: Any
    step: Any
    cost: Any
    accuracy: Any
    train: Any
    scaffold: Any


class StopRequest:
    """A handler for SIGTERM, which sets `received`."""

    def __init__(self) -> None:
        self.received = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True


def main() -> None:
    arguments = parse_arguments()
    assignment = read_assignment(arguments)
    environment = Environment.from_os()
    use_processors()
    leave_when_a_peer_is_gone()
    server = start_server(assignment)  # the server ends when its object is deleted
    target = server.target if server else ""
    if assignment.job == "ps":
        serve(assignment, target, environment)
    digits = idx.read_part(environment.data_folder("mnist"), idx.TRAIN)
    diary = train(arguments, assignment, target, environment, digits)
    if assignment.is_chief:
        wait_for_the_others(assignment, target)
        conclude(arguments, environment, assignment, diary)
        report_end(assignment, target)
    else:
        report_done(assignment, target)
    leave(FINISHED, f"{assignment.job} {assignment.task} is done")


def parse_arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--ps_hosts", default="", help="comma-separated address:port")
    parser.add_argument("--worker_hosts", default="", help="comma-separated address:port, the chief first")
    parser.add_argument("--job_name", choices=("worker", "ps"), default="worker", help=SHOWN)
    parser.add_argument("--task_index", type=at_least(0), default=0, help=SHOWN)
    parser.add_argument(
        "--steps", type=at_least(1), default=3000, help=f"steps of all workers together {SHOWN}"
    )
    parser.add_argument(
        "--batch_size", type=at_least(1), default=50, help=f"batch size of each worker {SHOWN}"
    )
    parser.add_argument("--learning_rate", type=float, default=0.5, help=SHOWN)
    parser.add_argument("--frequency", type=at_least(1), default=100, help=f"steps between two lines {SHOWN}")
    parser.add_argument("--seed", type=int, default=1, help=SHOWN)
    parser.add_argument(
        "--step_delay", type=float, default=0.0, help=f"pause after each step in seconds {SHOWN}"
    )
    return parser.parse_args()


def read_assignment(arguments: argparse.Namespace) -> Assignment:
    """Return the role of this process. Raises SystemExit if the flags do not name it."""
    servers, workers = (
        tuple(one for one in addresses.split(",") if one)
        for addresses in (arguments.ps_hosts, arguments.worker_hosts)
    )
    if bool(servers) != bool(workers):
        raise SystemExit("--ps_hosts and --worker_hosts belong together: only one of them was given")
    members = servers if arguments.job_name == "ps" else workers
    if members and arguments.task_index >= len(members):
        raise SystemExit(
            f"--task_index {arguments.task_index}: there are only {len(members)} of --job_name {arguments.job_name}"
        )
    if not members and (arguments.job_name, arguments.task_index) != ("worker", 0):
        raise SystemExit(f"--job_name {arguments.job_name} needs --ps_hosts and --worker_hosts")
    return Assignment(servers, workers, arguments.job_name, arguments.task_index)


def start_server(assignment: Assignment) -> Any:
    """Start this process's server. Return None without a cluster. A parameter server does not use GPUs."""
    if not assignment.workers:
        return None
    config = v1.ConfigProto(device_count={"GPU": 0}) if assignment.job == "ps" else None
    server = v1.train.Server(
        assignment.spec, job_name=assignment.job, task_index=assignment.task, config=config
    )
    print(
        f"{assignment.job} {assignment.task} of {len(assignment.workers)} workers is at {server.target}",
        flush=True,
    )
    return server


def serve(assignment: Assignment, target: str, environment: Environment) -> NoReturn:
    """Run a parameter server until the chief reports the end, or the chief's port has been closed for a while.

    SIGTERM is ignored: the chief gets the signal, too, and still needs the parameters to save them.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    chief = assignment.workers[0]
    with limit_wait(environment.form_seconds, assignment, "the others to come"):
        while assignment.absent():
            time.sleep(LOOK_SECONDS)
    with tf.Graph().as_default(), v1.Session(target, config=assignment.config()) as session:
        messages = end_queue(assignment.task).size()
        unanswered = 0
        while unanswered < GONE_AFTER_LOOKS:
            if session.run(messages):
                leave(FINISHED, f"ps {assignment.task} ends: the chief has finished")
            time.sleep(LOOK_SECONDS)
            unanswered = 0 if answers(chief) else unanswered + 1
    leave(RESTART, f"a peer is gone (no answer from worker 0 at {chief}); leaving to be started again")


def train(
    arguments: argparse.Namespace,
    assignment: Assignment,
    target: str,
    environment: Environment,
    digits: idx.Labelled,
) -> mnist.Diary:
    """Train to the step limit and return the printed progress. Does not return if this process must leave."""
    stop = StopRequest()
    per_epoch = digits.count // arguments.batch_size
    if not per_epoch:
        raise SystemExit(
            f"--batch_size {arguments.batch_size} is more than the {digits.count} digits of the data"
        )
    diary = mnist.Diary(arguments.frequency)
    with limit_wait(environment.form_seconds, assignment, "the others to come"):
        while assignment.absent():
            time.sleep(LOOK_SECONDS)
    with tf.Graph().as_default(), Watch(vital=assignment.servers, helpers={}) as watch:
        graph = build(arguments, assignment, environment)
        with limit_wait(environment.form_seconds, assignment, "a session"):
            if not assignment.is_chief:
                wait_for_the_chief(assignment, target)
            restored = step_in(environment.checkpoints) if assignment.is_chief else None
            session = open_session(arguments, assignment, target, environment, graph)
        with session:
            # Another worker may already have trained on from the chief's restored state.
            now = int(session.run_step_fn(lambda step_context: step_context.session.run(graph.step)))
            step = now if restored is None else restored
            if restored:
                print(f"resumed from step {step}", flush=True)
            else:
                print(f"starting at step {step}", flush=True)
            reporter = report(arguments, environment, assignment, step, per_epoch)
            batches = in_random_order(digits, arguments, assignment, step)
            while not session.should_stop() and not stop.received:
                images, labels = next(batches)
                _, step, cost, accuracy = session.run(
                    [graph.train, graph.step, graph.cost, graph.accuracy],
                    {graph.images: images, graph.labels: labels},
                )
                watch.saw(int(step), patience=STALLED_SECONDS)
                epoch, batch = divmod(int(step) - 1, per_epoch)
                done = Step(
                    int(step), arguments.steps, epoch + 1, batch + 1, per_epoch, float(cost), float(accuracy)
                )
                diary.note(done)
                reporter.say(done.step, done.loss, done.accuracy)
                time.sleep(arguments.step_delay)
    if stop.received and step < arguments.steps:
        leave(RESTART, f"asked to leave at step {step} of {arguments.steps}, to be started again")
    return diary


def build(arguments: argparse.Namespace, assignment: Assignment, environment: Environment) -> Training:
    """Build the graph of one worker: variables and step on the parameter servers, the rest in this process."""
    setter = v1.train.replica_device_setter(worker_device=assignment.device, cluster=assignment.spec)
    with v1.device(setter if assignment.workers else None):
        step = v1.train.get_or_create_global_step()
        images = v1.placeholder(tf.float32, (None, mnist.PIXELS), name="images")
        labels = v1.placeholder(tf.int64, (None,), name="labels")
        hidden = tf.sigmoid(layer("hidden", images, mnist.HIDDEN, arguments.seed))
        logits = layer("softmax", hidden, mnist.DIGITS, arguments.seed + 1)
        cost = tf.reduce_mean(losses(labels, logits))
        accuracy = tf.reduce_mean(is_right(labels, logits))
        optimizer = v1.train.GradientDescentOptimizer(arguments.learning_rate)
        train = optimizer.minimize(cost, global_step=step)
        v1.summary.scalar("train/cost", cost)
        v1.summary.scalar("train/accuracy", accuracy)
    with tf.device(
        assignment.device
    ):  # saves to the chief's disk; a sharded saver would write to the parameter servers'
        saver = v1.train.Saver(max_to_keep=environment.checkpoint_keep)
    return Training(images, labels, step, cost, accuracy, train, v1.train.Scaffold(saver=saver))


def layer(name: str, inputs: Any, units: int, seed: int) -> Any:
    with v1.variable_scope(name):
        wide = v1.truncated_normal_initializer(stddev=inputs.shape[1] ** -0.5, seed=seed)
        weights = v1.get_variable("weights", (inputs.shape[1], units), initializer=wide)
        biases = v1.get_variable("biases", (units,), initializer=v1.zeros_initializer())
    return tf.linalg.matmul(inputs, weights) + biases


def step_in(checkpoints: Path) -> int:
    """Return the step of the latest checkpoint, which the chief's session restores; 0 if there is none."""
    latest = tf.train.latest_checkpoint(str(checkpoints))
    return int(tf.train.load_checkpoint(latest).get_tensor("global_step")) if latest else 0


def open_session(
    arguments: argparse.Namespace,
    assignment: Assignment,
    target: str,
    environment: Environment,
    graph: Training,
) -> Any:
    """Open a session. The chief initializes or restores the variables, and the others wait for that."""
    steps, seconds = environment.checkpoint_steps, environment.checkpoint_seconds
    return v1.train.MonitoredTrainingSession(
        master=target,
        is_chief=assignment.is_chief,
        checkpoint_dir=str(environment.checkpoints) if assignment.is_chief else None,
        scaffold=graph.scaffold,
        hooks=[v1.train.StopAtStepHook(last_step=arguments.steps)],
        save_checkpoint_steps=steps or None,
        save_checkpoint_secs=None if steps else seconds,
        save_summaries_steps=SUMMARY_STEPS,
        summary_dir=str(environment.tensorboard),
        save_graph_def=False,
        config=assignment.config(),
        max_wait_secs=int(environment.form_seconds),
    )


def in_random_order(
    digits: idx.Labelled, arguments: argparse.Namespace, assignment: Assignment, first_step: int
) -> Iterator[tuple[Any, Any]]:
    """Yield batches without end, in a new random order for each epoch, each worker, and after each restart."""
    order = np.random.default_rng((arguments.seed, assignment.task, first_step))
    while True:
        mixed = order.permutation(digits.count)
        for start in range(0, digits.count - arguments.batch_size + 1, arguments.batch_size):
            chosen = mixed[start : start + arguments.batch_size]
            yield digits.images[chosen], digits.labels[chosen]


def report(
    arguments: argparse.Namespace, environment: Environment, assignment: Assignment, step: int, per_epoch: int
) -> Reporter:
    """Return the reporter of progress. TensorFlow verifies each restored tensor with its checksum."""
    found = Resumed(step, arguments.batch_size, step // per_epoch + 1, step % per_epoch, verified=True)
    plan = Plan(
        epochs=0,
        global_batch_size=arguments.batch_size,
        seed=arguments.seed,
        checkpoint_every=0,
        checkpoint_seconds=0,
        each_step=lambda _: None,
    )
    return Reporter(
        environment,
        plan,
        steps=arguments.steps,
        per_epoch=per_epoch,
        is_chief=False,
        resumed=found if step and assignment.is_chief else None,
    )


def conclude(
    arguments: argparse.Namespace, environment: Environment, assignment: Assignment, diary: mnist.Diary
) -> None:
    """Evaluate the last checkpoint on held-out digits, and export it as a SavedModel."""
    saved = tf.train.load_checkpoint(str(environment.checkpoints))
    step = int(saved.get_tensor("global_step"))
    model = mnist.Classifier(arguments.seed)
    for variable, name in (
        (model.hidden_weights, "hidden/weights"),
        (model.hidden_biases, "hidden/biases"),
        (model.weights, "softmax/weights"),
        (model.biases, "softmax/biases"),
    ):
        variable.assign(saved.get_tensor(name))
    test = mnist.arrays(environment.data_folder("mnist"), idx.TEST)
    numbers = evaluate(model, test)
    diary.close(numbers["accuracy"], numbers["loss"])
    here = Cluster(Place.from_tf_config(None), Strategy.SINGLE, tf.distribute.get_strategy())
    runtime = Runtime(here, environment)
    images = tf.TensorSpec((None, mnist.PIXELS), tf.float32, name="images")
    runtime.save_model(model, classifier(model, images), step=step)
    workers = max(len(assignment.workers), 1)
    runtime.write_metrics({"step": step, "steps": arguments.steps, **numbers, "workers": workers})


if __name__ == "__main__":
    main()
