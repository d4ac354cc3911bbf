"""One device: Keras 3 `fit` that continues after an interruption."""

import keras
import numpy as np
import tensorflow as tf

from trainyard.runtime import start
from trainyard.runtime.data import Arrays
from trainyard.runtime.export import classifier
from trainyard.runtime.keras import Resumable
from trainyard.runtime.models import for_inference

EPOCHS, BATCH = 5, 64

runtime = start(seed=1)
scans = np.load(runtime.data("digits") / "digits.npz")
train = Arrays(scans["images"], scans["labels"])
model = keras.Sequential(
    [keras.layers.Input((64,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)]
)
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
steps = runtime.steps_per_epoch(train, global_batch_size=BATCH)
resumable = Resumable(runtime, model, steps_per_epoch=steps, global_batch_size=BATCH)
model.fit(resumable.batches_of(train), epochs=EPOCHS, steps_per_epoch=steps, callbacks=[resumable], verbose=0)
runtime.save_model(
    model,
    classifier(for_inference(model), tf.TensorSpec((None, 64), tf.float32, name="image")),
    step=resumable.step,
)
runtime.write_metrics({"step": resumable.step, "history": resumable.history, **resumable.history[-1]})
runtime.finish(resumable.step)
