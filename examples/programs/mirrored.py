"""All GPUs of one host: a tf.Module with its own loss, in the elastic loop."""

import numpy as np
import tensorflow as tf
import tf_keras

from trainyard.runtime import start
from trainyard.runtime.data import Arrays
from trainyard.runtime.export import classifier


class Network(tf.Module):
    """64 pixels in, 10 logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = tf.Variable(tf.random.stateless_normal((64, 64), seed=(1, 1)) * 0.1)
        self.out = tf.Variable(tf.random.stateless_normal((64, 10), seed=(1, 2)) * 0.1)

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(images @ self.hidden) @ self.out


runtime = start(seed=1)
scans = np.load(runtime.data("digits") / "digits.npz")
with runtime.strategy.scope():
    model = Network()
    optimizer = tf_keras.optimizers.SGD(0.1, momentum=0.9)
loop = runtime.loop(
    model=model,
    optimizer=optimizer,
    losses=lambda labels, logits: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
    is_right=lambda labels, logits: tf.cast(tf.argmax(logits, axis=1) == labels, tf.float32),
    epochs=5,
    global_batch_size=64,
)
trained = loop.train(Arrays(scans["images"], scans["labels"]))
image = tf.TensorSpec((None, 64), tf.float32, name="image")
runtime.save_model(model, classifier(model, image), step=trained.step)
runtime.write_metrics({"step": trained.step, "history": trained.history, **trained.history[-1]})
runtime.finish(trained.step)
