"""The tutorial on parameter servers: a server on workers and ps, a coordinator on the chief, a loop."""

import os

import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    os.environ["GRPC_FAIL_FAST"] = "use_caller"
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol=resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(tf.zeros((4, 1)))
    bias = tf.Variable(0.0)


def per_worker_dataset():
    def to_example(seed):
        points = tf.random.stateless_normal((64, 4), seed=tf.stack([seed, 7]))
        return points, tf.matmul(points, [[1.0], [-2.0], [3.0], [0.5]]) + 0.25

    return tf.data.Dataset.range(1_000_000).map(to_example)


@tf.function
def step(iterator):
    def replica(points, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(points, weight) + bias - wanted) ** 2)
        by_weight, by_bias = tape.gradient(loss, [weight, bias])
        weight.assign_sub(0.05 * by_weight)
        bias.assign_sub(0.05 * by_bias)
        return loss

    return strategy.run(replica, args=next(iterator))


iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset))
for epoch in range(5):
    for _ in range(40):
        loss = coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    print(f"epoch {epoch} loss {float(loss.fetch()):.6f}", flush=True)
