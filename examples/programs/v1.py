"""TensorFlow 1: a ClusterSpec from flags, a server, a monitored session. The program does not use Trainyard's code.

Its job passes the flags:
  args: {job_name: "${job_name}", task_index: "${task_index}", ps_hosts: "${ps_hosts}",
         worker_hosts: "${worker_hosts}", data: "${data.digits}", checkpoints: "${checkpoints}"}
"""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
parser = argparse.ArgumentParser()
for flag in ("job_name", "ps_hosts", "worker_hosts", "data", "checkpoints"):
    parser.add_argument(f"--{flag}", required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--steps", type=int, default=300)
flags = parser.parse_args()

cluster = tf.train.ClusterSpec({"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")})
server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
if flags.job_name == "ps":
    server.join()

scans = np.load(f"{flags.data}/digits.npz")
with tf.device(
    tf.train.replica_device_setter(worker_device=f"/job:worker/task:{flags.task_index}", cluster=cluster)
):
    images = tf.placeholder(tf.float32, (None, 64))
    labels = tf.placeholder(tf.int64, (None,))
    weights = tf.get_variable("weights", (64, 10), initializer=tf.zeros_initializer())
    logits = images @ weights
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdagradOptimizer(0.5).minimize(loss, global_step=step)
with tf.device(f"/job:worker/task:{flags.task_index}"):
    # The session's own saver would write to the parameter servers' disks; this one writes to the chief's.
    scaffold = tf.train.Scaffold(saver=tf.train.Saver())

# A worker only uses the parameter servers and itself, so that it never waits for a worker that has finished.
seen = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{flags.task_index}"])
order = np.random.default_rng(flags.task_index)
with tf.train.MonitoredTrainingSession(
    master=server.target,
    is_chief=flags.task_index == 0,
    config=seen,
    scaffold=scaffold,
    checkpoint_dir=flags.checkpoints,
    save_checkpoint_steps=100,
    hooks=[tf.train.StopAtStepHook(last_step=flags.steps)],
) as session:
    while not session.should_stop():
        chosen = order.integers(0, len(scans["labels"]), 64)
        feed = {images: scans["images"][chosen], labels: scans["labels"][chosen]}
        _, now, cost = session.run([train, step, loss], feed)
        if now % 50 == 0:
            print(f"Step: {now},  Cost: {cost:.4f}", flush=True)
