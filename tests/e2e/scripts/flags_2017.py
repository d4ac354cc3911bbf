"""A script of 2017 with a new import: hosts as flags, a Server, between-graph replication, chief by task index."""

import argparse
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
FLAGS = None


def main(_):
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    elif FLAGS.job_name == "worker":
        device = tf.train.replica_device_setter(
            worker_device=f"/job:worker/task:{FLAGS.task_index}", cluster=cluster
        )
        with tf.device(device):
            points = tf.placeholder(tf.float32, [None, 4])
            wanted = tf.placeholder(tf.float32, [None, 1])
            weight = tf.get_variable("weight", [4, 1])
            loss = tf.reduce_mean(tf.square(tf.matmul(points, weight) - wanted))
            global_step = tf.train.get_or_create_global_step()
            train_op = tf.train.AdagradOptimizer(0.5).minimize(loss, global_step=global_step)
        with tf.device(f"/job:worker/task:{FLAGS.task_index}"):
            scaffold = tf.train.Scaffold(saver=tf.train.Saver()) if FLAGS.own_saver else None
        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps)]
        filters = ["/job:ps", f"/job:worker/task:{FLAGS.task_index}"]
        with tf.train.MonitoredTrainingSession(
            master=server.target,
            is_chief=(FLAGS.task_index == 0),
            scaffold=scaffold,
            checkpoint_dir=FLAGS.train_dir,
            save_checkpoint_secs=2,
            hooks=hooks,
            config=tf.ConfigProto(device_filters=filters),
        ) as session:
            rng = np.random.default_rng(FLAGS.task_index)
            while not session.should_stop():
                batch = rng.normal(size=(32, 4))
                answer = batch @ np.array([[1.0], [-2.0], [3.0], [0.5]])
                _, step, cost = session.run(
                    [train_op, global_step, loss], feed_dict={points: batch, wanted: answer}
                )
                if step % 50 == 0:
                    print(f"{os.getpid()} step {step} cost {cost:.6f}", flush=True)
                time.sleep(FLAGS.pause if FLAGS.attempt == 1 else 0.0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", type=str, default="")
    parser.add_argument("--worker_hosts", type=str, default="")
    parser.add_argument("--job_name", type=str, default="")
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--train_dir", type=str, default="/tmp/train_logs")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--own_saver", action="store_true")
    parser.add_argument(
        "--pause", type=float, default=0.0, help="seconds after each step of the first attempt"
    )
    parser.add_argument("--attempt", type=int, default=1)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0], *unparsed])
