"""TensorFlow's parameter-server tutorial with its own ways to save, without any use of Trainyard.

`python tutorial.py HOW FOLDER [SECONDS]`: HOW is manager, backup or weights. SECONDS is the pause after each epoch.
"""

import sys
import time

import numpy as np
import tensorflow as tf
import tf_keras

EPOCHS, STEPS = 4, 10
how, folder, pause = sys.argv[1], sys.argv[2], float((sys.argv[3:] or ["0"])[0])
cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
        start=True,
    )
    server.join()

strategy = tf.distribute.ParameterServerStrategy(cluster_resolver)
features = np.random.default_rng(1).normal(size=(64, 4)).astype("float32")
labels = features.sum(axis=1, keepdims=True)


def dataset_fn(context: object = None) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(64).repeat().batch(8)


with strategy.scope():
    model = tf_keras.Sequential([tf_keras.layers.Dense(8, input_shape=(4,)), tf_keras.layers.Dense(1)])
    optimizer = tf_keras.optimizers.legacy.SGD(0.05)
    model.compile(optimizer, loss="mse", steps_per_execution=STEPS)

if how == "manager":
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    if manager.latest_checkpoint:
        checkpoint.restore(manager.latest_checkpoint)
        print("restored", manager.latest_checkpoint, "at", int(optimizer.iterations), flush=True)

    @tf.function
    def step_fn(iterator):  # type: ignore[no-untyped-def]
        def replica_fn(examples):  # type: ignore[no-untyped-def]
            inputs, targets = examples
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(inputs, training=True) - targets) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica_fn, args=(next(iterator),))

    per_worker = coordinator.create_per_worker_dataset(
        lambda: strategy.distribute_datasets_from_function(dataset_fn)
    )
    iterator = iter(per_worker)
    while int(optimizer.iterations) < EPOCHS * STEPS:
        for _ in range(STEPS):
            coordinator.schedule(step_fn, args=(iterator,))
        coordinator.join()
        print("saved", manager.save(), "at", int(optimizer.iterations), flush=True)
        time.sleep(pause)
else:
    slow = tf_keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: time.sleep(pause))
    if how == "backup":
        saves = tf_keras.callbacks.BackupAndRestore(backup_dir=folder)
    else:
        saves = tf_keras.callbacks.ModelCheckpoint(folder + "/ckpt-{epoch}", save_weights_only=True)
    before = tf.train.latest_checkpoint(folder) if how == "weights" else None
    if before:
        model.load_weights(before)
        print("restored", before, "at", int(optimizer.iterations), flush=True)
    data = tf_keras.utils.experimental.DatasetCreator(dataset_fn)
    model.fit(data, epochs=EPOCHS, steps_per_epoch=STEPS, callbacks=[saves, slow], verbose=2)
print("loss", float(tf.reduce_mean((model(features) - labels) ** 2)), flush=True)
tf.saved_model.save(model, "model")
