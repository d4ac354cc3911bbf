"""Several hosts in step: tf_keras `fit` that continues after an interruption. Keras 3 cannot do this."""

import numpy as np
import tensorflow as tf
import tf_keras

from trainyard.runtime import start
from trainyard.runtime.export import classifier
from trainyard.runtime.keras import Resumable
from trainyard.runtime.models import for_inference

EPOCHS, BATCH = 5, 64

runtime = start(seed=1)
scans = np.load(runtime.data("digits") / "digits.npz")
steps = len(scans["labels"]) // BATCH
dataset = (
    tf.data.Dataset.from_tensor_slices((scans["images"], scans["labels"]))
    .shuffle(len(scans["labels"]), seed=1)
    .batch(BATCH, drop_remainder=True)
)
with runtime.strategy.scope():
    model = tf_keras.Sequential(
        [
            tf_keras.layers.Input((64,)),
            tf_keras.layers.Dense(64, activation="relu"),
            tf_keras.layers.Dense(10),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
resumable = Resumable(runtime, model, steps_per_epoch=steps, global_batch_size=BATCH)
model.fit(resumable.rest_of(dataset), epochs=EPOCHS, steps_per_epoch=steps, callbacks=[resumable], verbose=0)
image = tf.TensorSpec((None, 64), tf.float32, name="image")
runtime.save_model(model, classifier(for_inference(model), image), step=resumable.step)
runtime.write_metrics({"step": resumable.step, "history": resumable.history, **resumable.history[-1]})
runtime.finish(resumable.step)
