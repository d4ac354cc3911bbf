"""Keras: BackupAndRestore and CSVLogger, as on the API's pages."""

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


class Pause(keras.callbacks.Callback):
    first = True

    def on_epoch_begin(self, epoch, logs=None):
        if self.first:
            print("first epoch here:", epoch, flush=True)
        self.first = False

    def on_epoch_end(self, epoch, logs=None):
        time.sleep(1.5)


model.fit(
    x,
    y,
    epochs=120,
    callbacks=[
        keras.callbacks.BackupAndRestore("./backup"),
        keras.callbacks.CSVLogger("history.csv", append=True),
        Pause(),
    ],
)
model.save("final_model.h5")
with open("history.csv") as history:
    print("rows of the history:", len(history.readlines()))
