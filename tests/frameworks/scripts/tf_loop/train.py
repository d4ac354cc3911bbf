"""TensorFlow's guide "Training checkpoints": CheckpointManager in ./ckpt."""

import time

import tensorflow as tf

w = tf.Variable(0.0)
opt = tf.keras.optimizers.SGD(0.002)
ckpt = tf.train.Checkpoint(step=tf.Variable(1), optimizer=opt, w=w)
manager = tf.train.CheckpointManager(ckpt, "./ckpt", max_to_keep=3)
ckpt.restore(manager.latest_checkpoint)
if manager.latest_checkpoint:
    print(f"Restored from {manager.latest_checkpoint} at step {int(ckpt.step)}")
else:
    print("Initializing from scratch.")

while int(ckpt.step) <= 400:
    with tf.GradientTape() as tape:
        loss = (w * 3.0 - 6.0) ** 2
    opt.apply_gradients([(tape.gradient(loss, w), w)])
    if int(ckpt.step) % 5 == 0:
        print(f"Step {int(ckpt.step)}: loss {float(loss):1.4f}")
    ckpt.step.assign_add(1)
    if int(ckpt.step) % 10 == 0:
        save_path = manager.save()
        print(f"Saved checkpoint for step {int(ckpt.step)}: {save_path}")
    time.sleep(0.5)

tf.saved_model.save(tf.Module(), "./export/1")
