"""Keras: a checkpoint after each epoch, the newest by its time."""

import glob
import os
import re
import time

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(512, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")

model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

initial_epoch = 0
checkpoints = glob.glob("checkpoints/*.keras")
if checkpoints:
    latest = max(checkpoints, key=os.path.getmtime)
    print("Restoring from", latest)
    model = keras.models.load_model(latest)
    initial_epoch = int(re.search(r"epoch-(\d+)", latest)[1])


class Pause(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        time.sleep(1.5)


model.fit(
    x,
    y,
    epochs=120,
    initial_epoch=initial_epoch,
    verbose=2,
    callbacks=[
        keras.callbacks.ModelCheckpoint("checkpoints/epoch-{epoch:02d}.keras"),
        keras.callbacks.TensorBoard("logs"),
        Pause(),
    ],
)
os.makedirs("outputs", exist_ok=True)
model.save("outputs/model.keras")
